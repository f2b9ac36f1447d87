# SPDX-License-Identifier: GPL-2.0-or-later
# What 'cmake --install' puts where besides the binary, and the Debian package:
#
#     cmake -S . -B build -G Ninja -DCMAKE_INSTALL_PREFIX=/usr -DKUBE_NFTD_TESTS=OFF
#     cmake --build build
#     cd build && cpack
pkg_get_variable(SYSTEMD_UNIT_DIR systemd systemdsystemunitdir)
if(NOT SYSTEMD_UNIT_DIR)
  set(SYSTEMD_UNIT_DIR /lib/systemd/system)
endif()
set(KUBE_NFTD_UNIT_DIR ${SYSTEMD_UNIT_DIR} CACHE PATH "Where systemd's units go; empty: nowhere")
set(KUBE_NFTD_DEFAULT_DIR /etc/default CACHE PATH "Where the unit's flags are")

# The unit with the paths of this build.
if(KUBE_NFTD_UNIT_DIR)
  file(READ systemd/kube-nftd.service UNIT)
  string(REPLACE /usr/sbin/kube-nftd ${CMAKE_INSTALL_FULL_SBINDIR}/kube-nftd UNIT "${UNIT}")
  string(REPLACE /etc/default/ ${KUBE_NFTD_DEFAULT_DIR}/ UNIT "${UNIT}")
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/kube-nftd.service CONTENT "${UNIT}")
  install(FILES ${CMAKE_BINARY_DIR}/kube-nftd.service DESTINATION ${KUBE_NFTD_UNIT_DIR})
  # Flags that an operator set stay.
  install(CODE "
    set(defaults ${KUBE_NFTD_DEFAULT_DIR}/kube-nftd)
    if(NOT EXISTS \"\$ENV{DESTDIR}\${defaults}\")
      file(INSTALL FILES ${CMAKE_SOURCE_DIR}/systemd/kube-nftd.default
           DESTINATION ${KUBE_NFTD_DEFAULT_DIR} RENAME kube-nftd)
    endif()")
endif()
install(FILES deploy/kube-nftd.bash-completion
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kube-nftd)
install(FILES deploy/kube-nftd.zsh-completion
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _kube-nftd)

# Made at each configuration: man pages and changelogs are installed compressed.
function(install_compressed source name destination)
  set(out ${CMAKE_BINARY_DIR}/compressed/${name}.gz)
  add_custom_command(OUTPUT ${out} DEPENDS ${CMAKE_SOURCE_DIR}/${source} VERBATIM
    COMMAND sh -c "mkdir -p compressed && gzip -9n <\"$1\" >\"$2\"" gzip
            ${CMAKE_SOURCE_DIR}/${source} ${out}
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  add_custom_target(compressed-${name} ALL DEPENDS ${out})
  install(FILES ${out} DESTINATION ${destination})
endfunction()
install_compressed(docs/kube-nftd.8 kube-nftd.8 ${CMAKE_INSTALL_MANDIR}/man8)
install_compressed(deploy/debian/changelog changelog ${CMAKE_INSTALL_DOCDIR})
install(FILES deploy/debian/copyright README.md docs/migration.md docs/configuration.md docs/operating.md
  docs/limits.md docs/compatibility.md docs/behaviour.md docs/design.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

# For the machine of whoever has kubectl, which is seldom a node: kubectl-nftd takes Python.
install(PROGRAMS deploy/kubectl-nftd deploy/kubectl_complete-nftd
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES deploy/monitoring/rules.yaml deploy/monitoring/dashboard.json
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

set(CPACK_GENERATOR DEB)
set(CPACK_SET_DESTDIR ON) # /etc and the unit are outside of the prefix
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "kube-nftd developers <kube-nftd@localhost>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"kube-proxy replacement on nftables
Watches the Services and EndpointSlices of a Kubernetes cluster and keeps one
nftables table for each IP family true to them, so that service addresses lead
to endpoints. A change of one service changes a few elements of maps, however
many services there are.

The package starts nothing: see kube-nftd(8) for what the unit needs.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "init-system-helpers (>= 1.54~)")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS nftables) # purging the package removes the tables by it
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/deploy/debian/conffiles ${CMAKE_SOURCE_DIR}/deploy/debian/postinst
  ${CMAKE_SOURCE_DIR}/deploy/debian/prerm ${CMAKE_SOURCE_DIR}/deploy/debian/postrm)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/deploy/cpack.cmake)
include(CPack)
