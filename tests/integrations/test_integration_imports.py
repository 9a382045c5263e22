"""Each integration needs its own framework and no other, and says so."""

import importlib
import subprocess
import sys

import pytest

LIGHTNING = ("lightning", "pytorch_lightning")


def printed(code):
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_lightning_under_its_older_name_will_do_and_transformers_is_not_asked_for():
    pytest.importorskip("pytorch_lightning")
    code = (  # Lightning's metrics look for transformers themselves: what counts is what comes on top
        "import sys; sys.modules['lightning'] = None; import pytorch_lightning, swr; before = set(sys.modules);"
        "from swr.integrations.lightning import SWRCallback; print(SWRCallback.__mro__[1].__module__);"
        "print(*[m for m in set(sys.modules) - before if 'transformers' in m])"
    )
    assert printed(code) == ["pytorch_lightning.callbacks.callback"]


def test_transformers_is_importable_without_lightning():
    pytest.importorskip("transformers")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({LIGHTNING}));"
        "from swr.integrations.transformers import SWRCallback; print(SWRCallback.__mro__[1].__module__)"
    )
    assert printed(code) == ["transformers.trainer_callback"]


def test_the_package_itself_imports_no_framework():
    found = f"print(*[m for m in (*{LIGHTNING}, 'accelerate', 'transformers') if m in sys.modules])"
    assert printed(f"import sys, swr.integrations; {found}") == []
    assert printed(f"import sys; sys.modules['transformers'] = sys; {found}") == ["transformers"], "this test cannot fail"


@pytest.mark.parametrize(
    ("module", "missing", "command"),
    [("lightning", LIGHTNING, "pip install lightning"), ("transformers", ("transformers",), 'pip install "transformers')],
)
def test_a_missing_framework_is_named_with_the_command_that_installs_it(module, missing, command, monkeypatch):
    monkeypatch.delitem(sys.modules, f"swr.integrations.{module}", raising=False)
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=command):
        importlib.import_module(f"swr.integrations.{module}")
