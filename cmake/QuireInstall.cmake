# cmake --install installs the program, and libquire.so with what a program needs to link it.
#
#   bin/quire, lib/libquire.so, include/quire/..., lib/cmake/quire (find_package(quire), then link quire::quire),
#   lib/pkgconfig/quire.pc
#
# libquire.so contains all of Quire, so that a program that links it does not need Quire's own libraries. Of other libraries it
# exposes only fmt, whose format strings are part of quire/base/result.h.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The library that programs link. It exports the symbols of the folders that public headers declare, and contains what these
# need.
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/quire_shared.cc" CONTENT "// libquire.so has no source of its own.\n")
add_library(quire_shared SHARED EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/quire_shared.cc")
set_target_properties(quire_shared PROPERTIES OUTPUT_NAME quire EXPORT_NAME quire VERSION ${PROJECT_VERSION}
                                              SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_link_libraries(quire_shared PRIVATE quire::facade INTERFACE fmt::fmt)
set_property(TARGET quire_shared PROPERTY LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,quire_facade,quire_core,quire_base")
target_include_directories(quire_shared INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(quire_shared INTERFACE cxx_std_20)

install(TARGETS quire COMPONENT program)
install(TARGETS quire_shared EXPORT quire COMPONENT library)
install(DIRECTORY "${CMAKE_BINARY_DIR}/src/facade/public/quire" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library)
install(EXPORT quire NAMESPACE quire:: FILE quireTargets.cmake DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/quire"
        COMPONENT library)
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/quireConfig.cmake" @ONLY CONTENT
     "include(CMakeFindDependencyMacro)\nfind_dependency(fmt)\ninclude(\"\${CMAKE_CURRENT_LIST_DIR}/quireTargets.cmake\")\n")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/quireConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/quireConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/quireConfigVersion.cmake"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/quire" COMPONENT library)
configure_file("${CMAKE_CURRENT_LIST_DIR}/quire.pc.in" "${CMAKE_CURRENT_BINARY_DIR}/quire.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/quire.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT library)
