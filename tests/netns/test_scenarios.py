# SPDX-License-Identifier: GPL-2.0-or-later
"""Every file in scenarios/, in every family and protocol that it is for. See README.md."""

import pytest

import scenario_file
from daemon import tables_exist
from places import Places
from scenario import Proxy
from scenario_run import Run

CASES = [
    pytest.param(scenario, family, protocol, id=f"{scenario.name}-IPv{family}-{protocol}")
    for scenario in scenario_file.load_all()
    for family in scenario.families
    for protocol in scenario.protocols
]


@pytest.mark.parametrize("scenario,family,protocol", CASES)
def test_scenario(lab, tmp_path, scenario, family, protocol):
    places = Places(lab, family, protocol)
    proxy = Proxy(lab, tmp_path, *places.fill(scenario.flags))
    run = Run(scenario, proxy, places)
    try:
        run.play()
        assert "runtime error" not in proxy.daemon.log()
    except BaseException:
        if tables_exist(lab.node):
            print(proxy.tables[family].listing())  # shown with the failure
        raise
    finally:
        print(proxy.daemon.last_words())
        run.close()
        proxy.close()
