# The distribution's libraries that the core and the plugins use, found once; packages in scripts/setup/packages.txt.
find_package(Boost CONFIG REQUIRED COMPONENTS filesystem headers)
find_package(CLI11 CONFIG REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(tomlplusplus CONFIG REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_library(ZLIB_ARCHIVE NAMES libz.a REQUIRED)

# gemmi reads structure files. Debian 12 has it as headers alone, which need PEGTL's; later ones put a part into a library.
find_path(GEMMI_INCLUDE_DIR gemmi/cif.hpp REQUIRED)
find_path(PEGTL_INCLUDE_DIR tao/pegtl.hpp REQUIRED)
find_library(GEMMI_LIBRARY gemmi_cpp)
add_library(gemmi::gemmi INTERFACE IMPORTED)
target_include_directories(gemmi::gemmi SYSTEM INTERFACE ${GEMMI_INCLUDE_DIR} ${PEGTL_INCLUDE_DIR})
target_link_libraries(gemmi::gemmi INTERFACE ZLIB::ZLIB $<$<BOOL:${GEMMI_LIBRARY}>:${GEMMI_LIBRARY}>)

# libwebp has no package file in Debian 12. The demultiplexer finds the frames, which the decoder decodes.
find_path(WEBP_INCLUDE_DIR webp/demux.h REQUIRED)
find_library(WEBP_LIBRARY webp REQUIRED)
find_library(WEBPDEMUX_LIBRARY webpdemux REQUIRED)
add_library(webp::webpdemux INTERFACE IMPORTED)
target_include_directories(webp::webpdemux SYSTEM INTERFACE ${WEBP_INCLUDE_DIR})
target_link_libraries(webp::webpdemux INTERFACE ${WEBPDEMUX_LIBRARY} ${WEBP_LIBRARY})

# libzstd has no package file for CMake in Debian 12; the static library, which goes with the installed tasks.
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)
find_library(ZSTD_LIBRARY NAMES libzstd.a REQUIRED)
add_library(zstd::zstd STATIC IMPORTED)
set_target_properties(zstd::zstd PROPERTIES IMPORTED_LOCATION ${ZSTD_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ZSTD_INCLUDE_DIR})

# libarchive reads tar archives. The shared library brings along XML and all of Unicode, which those do not need.
find_path(ARCHIVE_INCLUDE_DIR archive.h REQUIRED)
find_library(ARCHIVE_LIBRARY NAMES libarchive.a archive REQUIRED)
add_library(archive::archive INTERFACE IMPORTED)
target_include_directories(archive::archive SYSTEM INTERFACE ${ARCHIVE_INCLUDE_DIR})
target_link_libraries(archive::archive INTERFACE ${ARCHIVE_LIBRARY})

# utf8proc brings text to normal form C; the static library, since its shared one has another name from release to release.
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
find_library(UTF8PROC_LIBRARY NAMES libutf8proc.a REQUIRED)
add_library(utf8proc::utf8proc STATIC IMPORTED)
set_target_properties(utf8proc::utf8proc PROPERTIES IMPORTED_LOCATION ${UTF8PROC_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${UTF8PROC_INCLUDE_DIR})

# SentencePiece reads tokenizer.model files. Only the tests train such.
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h REQUIRED)
find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train REQUIRED)

# dygraphs draws the curves of reports; it becomes part of each page.
find_path(DYGRAPHS_DIR dygraph.min.js PATHS /usr/share/javascript/dygraphs REQUIRED)
