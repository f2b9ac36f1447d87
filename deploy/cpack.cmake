# SPDX-License-Identifier: GPL-2.0-or-later
# Read when a package is made: Debian's files are below /usr.
if(NOT CPACK_INSTALL_PREFIX STREQUAL "/usr")
  message(FATAL_ERROR "A package is made from a build that was configured with "
    "-DCMAKE_INSTALL_PREFIX=/usr, not ${CPACK_INSTALL_PREFIX}.")
endif()
