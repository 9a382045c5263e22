"""The command `data`."""

import socket


def test_a_missing_dataset_without_network_is_one_sentence(swr, folder, monkeypatch):
    monkeypatch.delenv("SWR_DATA", raising=False)
    monkeypatch.setenv("SWR_CACHE", str(folder / "cache"))

    def no_network(*_, **__):
        raise socket.gaierror("no address")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    code, out, err = swr("run generalization --columns mnist-mlp")
    assert (code, out) == (2, "")
    assert "mnist was not found in" in err
    assert "no connection" in err
    assert err.count("\n") == 1


def test_data_list_and_check(swr):
    code, out, _ = swr("data list")
    assert code == 0
    assert {"digits", "mnist", "cifar10", "cifar100", "tinyimagenet"} <= {
        line.split(" ")[0] for line in out.splitlines() if line
    }
    assert swr("data check digits")[:2] == (0, "digits: valid\n")
