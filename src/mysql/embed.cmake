# sql/NNN_*.sql as C arrays (mysql/sql.h), written when the build is configured; a changed file configures it again.
file(GLOB SQL_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/sql/[0-9][0-9][0-9]_*.sql)
list(SORT SQL_FILES)
set(SQL_TEXTS "")
set(SQL_ROWS "")
foreach(SQL_FILE ${SQL_FILES})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SQL_FILE})
    get_filename_component(SQL_NAME ${SQL_FILE} NAME)
    string(REGEX REPLACE "^0*([0-9]+)_.*" "\\1" SQL_VERSION ${SQL_NAME})
    file(READ ${SQL_FILE} SQL_HEX HEX)
    string(REGEX REPLACE "(..)" "0x\\1," SQL_BYTES "${SQL_HEX}")
    string(APPEND SQL_TEXTS "static const char text_${SQL_VERSION}[] = {${SQL_BYTES}0};\n")
    string(APPEND SQL_ROWS
           "    {${SQL_VERSION}, \"${SQL_NAME}\", {text_${SQL_VERSION}, sizeof text_${SQL_VERSION} - 1}},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/sql_files.c @ONLY CONTENT
"#include \"mysql/sql.h\"\n\n@SQL_TEXTS@\nconst struct sql_file sql_files[] = {\n@SQL_ROWS@};\nconst size_t sql_files_n = sizeof sql_files / sizeof sql_files[0];\n")
target_sources(mysql PRIVATE ${CMAKE_BINARY_DIR}/sql_files.c)
