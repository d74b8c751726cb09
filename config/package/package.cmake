# What is installed beside the binary, and the Debian package: `cpack -G DEB` in a build with
#   cmake -S . -B build/package -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr
# Under umask 022 the same source gives the same bytes, whatever its path: paths of this machine are kept out of the
# binary (CMakeLists.txt), and times are SOURCE_DATE_EPOCH, by default that of the last commit, or of 2026-01-01 where
# there is no git.
install(FILES config/systemd/tallyd.service config/systemd/tallyd@.service DESTINATION lib/systemd/system)
install(FILES config/systemd/tallyd.sysusers DESTINATION lib/sysusers.d RENAME tallyd.conf)
install(FILES config/systemd/tallyd.tmpfiles DESTINATION lib/tmpfiles.d RENAME tallyd.conf)
install(FILES config/tallyd.yaml config/prometheus/tallyd.rules.yml config/dev.sh DESTINATION share/tallyd)
configure_file(config/dev.sh dev.sh COPYONLY) # `tallyd dev` of a build finds it beside itself
install(FILES config/tallyd.full.yaml DESTINATION share/doc/tallyd/examples)
install(FILES config/grafana/tallyd.json DESTINATION share/tallyd RENAME tallyd.grafana.json)
# On a page of the package a link to what it lacks is plain text, and there is no picture.
foreach(PAGE README.md config/README.md config/recipes.md config/prometheus/README.md src/command/README.md src/http/README.md sql/README.md)
    get_filename_component(PLACE ${PAGE} DIRECTORY)
    file(READ ${PAGE} TEXT)
    string(REGEX REPLACE "!\\[[^]]*\\]\\([^)]*\\)\n+" "" TEXT "${TEXT}")
    string(REGEX REPLACE "\\[([^]]*)\\]\\((\\.\\./)*(tests/|src/(README|sync|coalesce|redis)|tallyd\\.rules)[^)]*\\)"
        "\\1" TEXT "${TEXT}")
    file(WRITE ${CMAKE_BINARY_DIR}/doc/${PAGE} "${TEXT}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PAGE})
    install(FILES ${CMAKE_BINARY_DIR}/doc/${PAGE} DESTINATION share/doc/tallyd/${PLACE})
endforeach()
install(FILES LICENSE DESTINATION share/doc/tallyd RENAME copyright)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tallyd)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR tallyd)
set(CPACK_PACKAGE_CONTACT "The tallyd authors <tallyd@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "write-behind counters: hits into Redis, exactly once into MySQL")
set(CPACK_PACKAGE_DESCRIPTION
"Store apps send increments to tallyd's socket with any Redis client. It adds
them up in Redis and merges them into MySQL in batches, each exactly once.
Redis and MySQL or MariaDB may run on this machine or on others.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 1)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# The libraries by what the binary links; systemd-sysusers and -tmpfiles are what postinst calls; tzdata is for the options
# zone and store_zone.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers | systemd-sysusers, \
systemd | systemd-standalone-tmpfiles | systemd-tmpfiles, init-system-helpers (>= 1.54), tzdata")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "redis-server (>= 5:7.0), default-mysql-server, prometheus")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_SOURCE_DIR}/config/package/postinst;\
${CMAKE_SOURCE_DIR}/config/package/prerm;${CMAKE_SOURCE_DIR}/config/package/postrm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/config/package/epoch.cmake)
include(CPack)
