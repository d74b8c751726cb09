# Read by cpack: the time of everything in the package (package.cmake).
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
    execute_process(COMMAND git -C ${CMAKE_CURRENT_LIST_DIR} log -1 --format=%ct OUTPUT_VARIABLE EPOCH
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE NO_GIT)
    if(NO_GIT)
        set(EPOCH 1767225600)
    endif()
    set(ENV{SOURCE_DATE_EPOCH} ${EPOCH})
endif()
