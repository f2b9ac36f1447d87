# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs cases that mostly wait side by side, each in a process of its own and so in a network of its
own. pytest reports each as one test:

    @pytest.fixture(name="outcome", scope="module")
    def run_cases(request, tmp_path_factory):
        yield from side_by_side.run(request, tmp_path_factory, run_case)

    @pytest.mark.parametrize("case", CASES)
    def test_case(outcome, case):
        outcome(case)
"""

import concurrent.futures
import contextlib
import io
import multiprocessing
import traceback

AT_A_TIME = 6


def run(request, tmp_path_factory, run_case):
    """A fixture's generator. Starts @run_case(case, folder) for each selected test of the module that
    has a parameter `case`; gives a function that waits for one of them and raises what it raised."""
    cases = [item.callspec.params["case"] for item in request.session.items
             if item.path == request.path and "case" in getattr(item, "callspec", NoCall).params]
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(AT_A_TIME, context) as pool:
        started = {case: pool.submit(_tell, run_case, case, tmp_path_factory.mktemp("case"))
                   for case in dict.fromkeys(cases)}
        yield lambda case: started[case].result()


def _tell(run_case, case, folder):
    """Runs the case; what it prints becomes a part of its failure."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            run_case(case, folder)
            return
        except Exception:  # pylint: disable=broad-exception-caught # whatever it is, it is passed on
            failure = traceback.format_exc()
    raise AssertionError(f"{case}\n{printed.getvalue()}\n{failure}")


class NoCall:
    """A test without parameters."""
    params: dict = {}
