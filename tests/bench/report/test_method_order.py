from swr import methods
from swr.bench.report.method_order import column_place, place


def test_references_come_first_then_the_registry_then_the_users_own():
    names = ["z:Mine", *reversed(methods.names()), "cold", "a:Mine"]
    assert sorted(names, key=place) == ["cold", *methods.names(), "a:Mine", "z:Mine"]
    assert methods.names()[0] == "vanilla"


def test_columns_of_the_paper_come_before_others():
    assert column_place("mnist-mlp") < column_place("cifar10-cnn") < column_place("folder:x-cnn")
