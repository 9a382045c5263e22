"""The command `explain`."""

import sys


def test_explain_prints_the_plan_of_a_model_in_this_folder(swr, folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "stranger.py").write_text(
        "from torch import nn\n"
        "class Two(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.table, self.out = nn.Embedding(5, 4), nn.Linear(4, 2)\n"
        "    def forward(self, words, other):\n"
        "        return self.out(self.table(words)) * other\n"
    )
    code, out, _ = swr("explain stranger:Two --input int:2x3 --input 2x3x2")
    assert code == 0
    assert "table.weight" in out
    assert "f(x) is multiplied by C" in out
