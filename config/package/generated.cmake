# What tallyd says of itself: completions for bash, and the pages of its manual where there is scdoc (without, the
# build goes on and has none). Made whenever the binary is, so that a package that has it has them too. The pages' date is
# SOURCE_DATE_EPOCH, where it is set.
set(SAID ${CMAKE_BINARY_DIR}/said)
file(MAKE_DIRECTORY ${SAID})

# said(FILE COMMAND...): a shell command whose output is that file; a command that fails leaves no file, and ends the build.
function(said FILE COMMAND)
    add_custom_command(TARGET tallyd POST_BUILD VERBATIM BYPRODUCTS ${SAID}/${FILE}
        COMMAND sh -c "${COMMAND} >\"$1.new\" && mv \"$1.new\" \"$1\"" - ${SAID}/${FILE} $<TARGET_FILE:tallyd>)
endfunction()

said(tallyd.bash "\"$2\" completion bash")
install(FILES ${SAID}/tallyd.bash DESTINATION share/bash-completion/completions RENAME tallyd)

find_program(SCDOC scdoc)
if(NOT SCDOC)
    message(STATUS "no scdoc: the manual's pages are left out")
    return()
endif()
foreach(PAGE tallyd.1 tallyd.yaml.5)
    string(REGEX MATCH "[15]$" SECTION ${PAGE})
    said(${PAGE}.scd "\"$2\" manual ${SECTION}")
    said(${PAGE} "\"${SCDOC}\" <\"$1.scd\"")
    said(${PAGE}.gz "gzip -9n <\"\${1%.gz}\"")
    install(FILES ${SAID}/${PAGE}.gz DESTINATION share/man/man${SECTION})
endforeach()
