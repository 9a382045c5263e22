import pytest

from swr.bench.data.progress_bar import bar


@pytest.mark.parametrize("unit", ["", "bytes"])
def test_the_bar_is_shown_on_a_terminal_only(capsys, monkeypatch, unit):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for terminal in (False, True):
        if terminal:
            monkeypatch.setenv("FORCE_COLOR", "1")
        with bar("decoding pets", 3, unit=unit) as show:
            for done in range(3):
                show(done + 1)
        out, err = capsys.readouterr()
        assert out == ""
        assert ("decoding pets" in err) == terminal
        assert terminal or err == ""
