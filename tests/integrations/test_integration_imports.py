"""Each integration needs its own framework and no other, and says so."""

import importlib
import subprocess
import sys

import pytest

LIGHTNING = ("lightning", "pytorch_lightning")
FRAMEWORKS = {  # the module of ours: what it needs, the base class it gets from there, how to install it
    "lightning": (LIGHTNING, "lightning.pytorch.callbacks.callback", "pip install lightning"),
    "transformers": (("transformers",), "transformers.trainer_callback", 'pip install "transformers'),
    "stable_baselines3": (("stable_baselines3",), "stable_baselines3.common.callbacks", "pip install stable-baselines3"),
    "torchrl": (("torchrl",), "torchrl.trainers.trainers", "pip install torchrl"),
}
OTHERS = (*(name for names, _, _ in FRAMEWORKS.values() for name in names), "peft", "trl", "skrl")


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


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_a_module_is_importable_without_the_frameworks_of_the_others(module):
    mine, base, _ = FRAMEWORKS[module]
    pytest.importorskip(mine[0])
    others = [name for name in OTHERS if name not in mine]
    code = (  # a framework may look for others itself: what counts is what comes on top
        f"import sys, {base}, swr; before = set(sys.modules); import swr.integrations.{module} as ours;"
        "print(getattr(ours, 'SWRCallback', getattr(ours, 'SWRHook', None)).__mro__[1].__module__);"
        f"print(*[m for m in {others} if m in set(sys.modules) - before])"
    )
    assert printed(code) == [base]


def test_the_package_itself_imports_no_framework():
    found = f"print(*[m for m in (*{OTHERS}, 'accelerate') if m in sys.modules])"
    assert printed(f"import sys, swr.integrations; {found}") == []
    assert printed(f"import sys; sys.modules['transformers'] = sys; {found}") == ["transformers"], "this test cannot fail"


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_a_missing_framework_is_named_with_the_command_that_installs_it(module, monkeypatch):
    missing, _, command = FRAMEWORKS[module]
    monkeypatch.delitem(sys.modules, f"swr.integrations.{module}", raising=False)
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=command):
        importlib.import_module(f"swr.integrations.{module}")
