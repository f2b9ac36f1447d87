# SPDX-License-Identifier: GPL-2.0-or-later
"""Every file in scenarios/, in every family and protocol that it is for. See README.md."""

import pytest

import scenario_file
import scenario_run

CASES = [
    pytest.param(scenario, family, protocol, id=f"{scenario.name}-IPv{family}-{protocol}")
    for scenario in scenario_file.load_all()
    for family in scenario.families
    for protocol in scenario.protocols
]


@pytest.mark.parametrize("scenario,family,protocol", CASES)
def test_scenario(lab, tmp_path, scenario, family, protocol):
    scenario_run.play(scenario, lab, tmp_path, family, protocol)
