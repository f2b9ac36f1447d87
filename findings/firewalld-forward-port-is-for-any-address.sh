#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A forward-port of firewalld, and connections through the host to somebody else
#
# One would guess: 'firewall-cmd --add-forward-port=port=80:...' forwards what comes to port 80 of this host, as a hostPort
# or a port that Docker or Podman publishes.
# True: the rule asks for the protocol and port alone. Whatever is routed through the host to port 80 of any address is
# translated, too, if it comes in by an interface of the zone; and an interface that nobody assigned is in the default
# zone, those of pods and containers included. Seen with firewalld 1.3.3.
# It matters here: its nat chain is behind that of Services (-90, -100). So a Service with endpoints is served, but where it
# has none, a forward-port with the port of its cluster IP takes the connection in place of the reject.
. "$(dirname "$0")/lib.sh"
command -v ip >/dev/null && [ -x /usr/bin/python3 ] || exit 77
fetch bookworm firewalld=1.3.3-1~deb12u2 python3-firewall=1.3.3-1~deb12u2 python3-nftables=1.0.6-2+deb12u2 "${NFT_1_0_6[@]}"
enter

# Starts firewalld's core, which programs the kernel, with its own defaults. What has to do with D-Bus is left out:
# GLib and NetworkManager.
start_firewalld() {
    local root=$folder/bookworm/root libraries
    libraries=$(dirname "$root"/usr/lib/*/libnftables.so.1)
    "$(find "$root" -name 'ld-linux*.so.*' | head -n 1)" --library-path "$libraries:$root/lib/${libraries##*/}" \
        /usr/bin/python3 - "$root" <<'PYTHON'
import sys, types
gi, repository, glib = (types.ModuleType(name) for name in ("gi", "gi.repository", "gi.repository.GLib"))
def require_version(name, version):
    raise ValueError(f"there is no {name}")
gi.require_version, repository.GLib, glib.MAXUINT32 = require_version, glib, 2**32 - 1
sys.modules.update({module.__name__: module for module in (gi, repository, glib)})
root = sys.argv[1]
sys.path.insert(0, root + "/usr/lib/python3/dist-packages")
import firewall.config
firewall.config.set_system_config_paths(root + "/etc/firewalld")
firewall.config.set_default_config_paths(root + "/usr/lib/firewalld")
from firewall.core.fw import Firewall
firewalld = Firewall()
firewalld.start()
firewalld.zone.add_forward_port("public", "80", "udp", "8080", "192.0.2.2")
PYTHON
}

# A datagram from 198.51.100.2, which comes in by the interface "in", to port 80 of ADDRESS.
send() { # ADDRESS
    /usr/bin/python3 - "$1" <<'PYTHON'
import socket, struct, sys
def total(data):
    number = sum(struct.unpack(f"!{len(data) // 2}H", data))
    return ~((number & 0xffff) + (number >> 16)) & 0xffff
ends = socket.inet_aton("198.51.100.2"), socket.inet_aton(sys.argv[1])
header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 1, 0, 64, 17, 0, *ends)
header = header[:10] + struct.pack("!H", total(header)) + header[12:]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
    out.bind(("outside", 0))
    out.send(bytes.fromhex("020000000001020000000002") + b"\x08\x00" + header + struct.pack("!HHHH", 1024, 80, 8, 0))
PYTHON
}

begin
ip link add in address 02:00:00:00:00:01 type veth peer name outside
ip link set outside up
ip link set in up
ip address add 198.51.100.1/24 dev in
echo 1 >/proc/sys/net/ipv4/ip_forward
start_firewalld
of bookworm nft list chain inet firewalld nat_PRE_public_allow
of bookworm nft -f - <<'RULES'
table ip t {
    counter forwarded { }
    counter through { }
    chain look {
        type filter hook prerouting priority 0;
        ip daddr 192.0.2.2 udp dport 8080 counter name forwarded
        ip daddr 203.0.113.9 udp dport 80 counter name through
    }
}
RULES
send 198.51.100.1
expect "to port 80 of this host, packets that the forward-port took" "$(packets ip t forwarded)" 1
send 203.0.113.9
expect "to port 80 of another host, packets that it took besides" "$(($(packets ip t forwarded) - 1))" 1
expect "to port 80 of another host, packets that went there" "$(packets ip t through)" 0
