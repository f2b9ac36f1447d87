# SPDX-License-Identifier: GPL-2.0-or-later
# Writes commit.h, which says what commit was built. Run at each build; the file is left alone if it says so already:
#
#     cmake -D SOURCE=FOLDER -D HEADER=FILE [-D COMMIT=HASH[-dirty]] -P deploy/commit.cmake
#
# Where git has nothing to say (a tarball, or a folder of somebody else's repository) and COMMIT neither, both are "".
cmake_minimum_required(VERSION 3.25)
if(NOT COMMIT)
  execute_process(COMMAND git rev-parse --show-prefix WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE below RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND below STREQUAL "")
    execute_process(COMMAND git --no-optional-locks describe --always --abbrev=40 --dirty --exclude=*
      WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
set(state "")
if(COMMIT)
  set(state clean)
endif()
if(COMMIT MATCHES "-dirty$")
  set(state dirty)
  string(REGEX REPLACE "-dirty$" "" COMMIT "${COMMIT}")
endif()
file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT
  "/* Made by deploy/commit.cmake. */\n#define KUBE_NFTD_COMMIT \"@COMMIT@\"\n#define KUBE_NFTD_TREE_STATE \"@state@\"\n")
