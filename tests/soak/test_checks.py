# SPDX-License-Identifier: GPL-2.0-or-later
"""The checks of a soak notice what they are for, and nothing else."""

import types

import pytest

import canonical
import soak
import world

TABLE = """\
table ip kube-nftd {
	map services {
		elements = { 10.96.0.1 . tcp . 80 : 0:fff8, 203.0.113.1 . tcp . 80 : 1:7ff5, 203.0.113.2 . tcp . 80 : 1:7ff5,
			     10.96.0.8 . tcp . 80 : 9:2,
			     10.96.0.2 . udp . 53 : 1:fff2, 10.96.0.9 . tcp . 80 : 2:0, 203.0.113.9 . tcp . 80 : 2:fff3 }
	}
	map ports {
		elements = { 0:8000 : 0:8002, 1:0 : 1:1, 2:8000 : 2:8001 }
	}
	map endpoints {
		elements = { 0:8000 . 0 : 10.244.0.1 . 8080,
			     0:8000 . 1 : 10.244.0.2 . 8080,
			     1:0 . 0 : 10.244.0.1 . 8080, 2:8000 . 0 : 10.244.0.1 . 8080,
			     9:0 . 0 : 10.244.0.1 . 8080, 9:0 . 1 : 10.244.0.5 . 8080 }
	}
	map local_ports {
		elements = { 1:8000 : 1:8001 }
	}
	map local_endpoints {
		elements = { 1:8000 . 0 : 10.244.0.3 . 8053 }
	}
	map picks {
		elements = { 0:2 : goto pick-2, 0:1 : goto pick-1 }
	}
	map local_picks {
		elements = { 0:1 : goto local-pick-1 }
	}
	map affinity_backends {
		elements = { 1:3 : 10.244.0.1 . 8080 }
	}
	map local_affinity_backends {
		elements = { 1:3 : 10.244.0.1 . 8080 }
	}
	map affinity_numbers {
		elements = { 1:0 . 10.244.0.1 . 8080 : 1:3 }
	}
	map affinity_timeouts {
		elements = { 1:0 : 0:a }
	}
	map learners {
		elements = { 0:a : goto learn-10 }
	}
	set rejected_ports {
		elements = { 2:0 }
	}
	set dropped_ports {
		elements = { 2:8002 }
	}
	map source_lists {
		elements = { 0:8000 : 0:300 }
	}
	set allowed_sources {
		elements = { 10.0.0.0 . 0:308 }
	}
	map checks {
		elements = { 0:8 : goto restricted }
	}
	set hairpin {
		elements = { 10.244.0.1 . 10.244.0.1 }
	}
	set cluster_ips {
		elements = { 10.96.0.1, 10.96.0.2 }
	}
	set service_cidrs {
		elements = { 10.96.0.0/16 }
	}
	set pod_cidrs {
		elements = { 10.244.0.0-10.244.0.255 }
	}
	chain restricted {
		drop
	}
	chain pick-1 {
		drop
	}
	chain pick-2 {
		drop
	}
	chain local-pick-1 {
		drop
	}
	chain learn-10 {
		drop
	}
}
"""

# Text in the table and what stands in its place: the same to packets.
SAME = {
    "slots in another order": ("0 : 10.244.0.1 . 8080,\n\t\t\t     0:8000 . 1 : 10.244.0.2",
                               "1 : 10.244.0.1 . 8080,\n\t\t\t     0:8000 . 0 : 10.244.0.2"),
    "another number of a port": ("9:", "2b:"),
    "another number of a backend": ("1:3", "1:4"),
    "a verdict that nothing needs": ("0:2 : goto pick-2", "0:2 : goto pick-2, 0:5 : goto pick-5"),
    "other numbers of lists": ("0:30", "1:70"),
    "a range written otherwise": ("10.244.0.0-10.244.0.255", "10.244.0.0/24"),
}
DIFFERENT = {
    "another class": (": 0:fff8, 203", ": 0:fff9, 203"),
    "not restricted": (": 0:fff8, 203", ": 0:fff0, 203"),
    "a check less": ("0:8 : goto restricted", ""),
    "a checking chain less": ("chain restricted", "chain limited"),
    "another port": ("80 : 2:0", "80 : 0:8002"),
    "a frontend less": ("203.0.113.2 . tcp . 80 : 1:7ff5,", ""),
    "another count": (": 0:8002,", ": 0:8001,"),
    "another backend": ("10.244.0.2 . 8080", "10.244.0.4 . 8080"),
    "a slot that no count reaches": ("8000 . 1 : 10.244.0.2", "8000 . 2 : 10.244.0.2"),
    "a count that is not the frontend's": ("0:8000 : 0:8002,", "0:8000 : 0:8002, 9:0 : 9:1,"),
    "a count of another port": ("1:0 : 1:1", "1:0 : 2:1"),
    "a port of nobody": ("1:0 : 1:1", "1:0 : 1:1, 7:0 : 7:1"),
    "another local backend": ("10.244.0.3 . 8053", "10.244.0.3 . 8054"),
    "a verdict less": ("0:2 : goto pick-2, ", ""),
    "a chain less": ("chain local-pick-1", "chain local-pick-2"),
    "a learner less": ("0:a : goto learn-10", "0:b : goto learn-10"),
    "no affinity": ("80 : 1:7ff5", "80 : 1:7ff1"),
    "another backend of affinity": ("1:3 : 10.244.0.1", "1:3 : 10.244.0.2"),
    "one learned as another": ("8080 : 1:3", "8080 : 1:4"),
    "another time": ("1:0 : 0:a", "1:0 : 0:b"),
    "a reject less": ("elements = { 2:0 }", "elements = { }"),
    "a drop more": ("2:8002 }", "2:8002, 2:2 }"),
    "another source": ("10.0.0.0 . 0:308", "10.0.0.0 . 0:309"),
    "a source less": ("10.0.0.0 . 0:308", ""),
    "another restriction": ("map source_lists {\n\t\telements = { 0:8000", "map source_lists {\n\t\telements = { 1:8000"),
    "a list of nobody": ("10.0.0.0 . 0:308", "10.0.0.0 . 0:308, 10.0.0.0 . 0:408"),
    "another hairpin": ("10.244.0.1 . 10.244.0.1", "10.244.0.2 . 10.244.0.2"),
    "a cluster IP less": ("10.96.0.1, ", ""),
    "another ServiceCIDR": ("10.96.0.0/16", "10.96.0.0/17"),
    "other pods": ("10.244.0.255", "10.244.0.254"),
}


def changed(change):
    old, new = change
    assert old in TABLE
    return TABLE.replace(old, new)


@pytest.mark.parametrize("change", SAME)
def test_same(change):
    text = changed(SAME[change])
    assert canonical.differences(text, TABLE) == canonical.differences(TABLE, text) == []


@pytest.mark.parametrize("change", DIFFERENT)
def test_different(change):
    assert canonical.differences(changed(DIFFERENT[change]), TABLE)


def test_other_rules():
    assert canonical.rule_differences(TABLE, TABLE) == []
    assert canonical.rule_differences(TABLE.replace("goto pick-2", "goto pick-3"), TABLE)
    assert canonical.rule_differences(TABLE.replace("goto local-pick-1", "goto learn-10"), TABLE)


def test_an_element_that_came_twice_is_no_table():
    with pytest.raises(canonical.Torn):
        canonical.of(changed(("10.96.0.2 . udp . 53 : 1:fff2", "10.96.0.2 . udp . 53 : 1:fff2, 10.96.0.2 . udp . 53 : 1:fff2")))


def test_the_same_seed_makes_the_same_script():
    scripts = []
    for seed in ("a", "a", "b"):
        made = world.World(seed)
        scripts.append([made.begin(), *[made.change() for _ in range(200)], made.heal()])
    assert scripts[0] == scripts[1] != scripts[2]


def life(*samples):
    return types.SimpleNamespace(life=types.SimpleNamespace(samples=list(samples), descriptors=lambda: []))


@pytest.mark.parametrize("last,good", [((9, 10_900, 20), True), ((9, 13_000, 20), False), ((9, 10_000, 21), False)])
def test_growth(last, good):
    held = life((9, 8_000, 18), (9, 10_000, 20), (9, 15_000, 25), last)
    if good:
        soak.Soak.check_samples(held, 0.1)
    else:
        with pytest.raises(soak.Failed):
            soak.Soak.check_samples(held, 0.1)


@pytest.mark.parametrize("last,good", [(6_000, True), (9_000, False)])
def test_growth_of_a_long_life(last, good):
    """It is compared with what it was when it had found its level."""
    held = life(*[(9, 3_000 + 500 * i, 20) for i in range(5)], *[(9, 5_500, 20)] * 10, (9, last, 20))
    if good:
        soak.Soak.check_samples(held, 0.1)
    else:
        with pytest.raises(soak.Failed):
            soak.Soak.check_samples(held, 0.1)


BACK = "2026-11-22T07:00:00.000Z warn  table: family=IPv4 reading the table back: the kernel refused to delete it"


@pytest.mark.parametrize("line,good,owner", [
    ("2026-11-22T07:00:00.000Z info  main: anything", True, True),
    ("2026-11-22T07:00:00.000Z warn  source: bad object: Service a/b: spec: missing", True, True),
    ("2026-11-22T07:00:00.000Z warn  netlink: the kernel refused it", False, True),
    ("2026-11-22T07:00:00.000Z error source: something new", False, True),
    ("==7==ERROR: AddressSanitizer: heap-use-after-free", False, True),
    (BACK, False, True),
    (BACK, True, False),
])
def test_log(line, good, owner):
    daemon = types.SimpleNamespace(log=lambda: line + "\n")
    held = types.SimpleNamespace(life=types.SimpleNamespace(daemon=daemon, owner=owner))
    if good:
        soak.Soak.check_log(held)
    else:
        with pytest.raises(soak.Failed):
            soak.Soak.check_log(held)
