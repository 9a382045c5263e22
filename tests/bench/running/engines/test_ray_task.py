"""What a worker of a cluster does, without a cluster."""

import pytest
from job_tasks import config, epoch

pytest.importorskip("ray", reason="Ray is not installed: pip install 'soft-weight-rescaling[ray]'")

from swr.bench.running.engines import Done, Failed, Job, Reported, Stopped, claim, ray_task
from swr.bench.running.engines.ray_task import Order, Saved, difference, versions


def order(tmp_path, task=None, checkpoints=None):
    job = Job(config(0), tmp_path / "the driver's")
    return Order(job, home=None, versions=versions(), threads=1, checkpoints=checkpoints, task=task)


def messages(monkeypatch, tmp_path, task, stop_at=None, checkpoints=None):
    """What a task sends; asked to stop at an epoch."""
    asked = iter(range(1, 100))
    monkeypatch.setattr(ray_task, "_Stopping", lambda home: lambda: next(asked) == stop_at)
    sent = []
    ray_task._train(order(tmp_path, task, checkpoints), Job(config(0), tmp_path), sent.append)
    return sent


def save_every_other(job, report):
    for number in range(1, 5):
        if number % 2 == 0:
            temporary = job.folder / "new"
            temporary.write_bytes(b"state of epoch %d" % number)
            temporary.replace(job.checkpoint)
        report(epoch(number))
    return {"examples": 7}


def test_the_checkpoint_is_handed_over_when_it_was_written_but_not_at_the_end(monkeypatch, tmp_path):
    sent = messages(monkeypatch, tmp_path, save_every_other)
    assert [type(message).__name__ for message in sent] == ["Reported", "Reported", "Saved", "Reported", "Reported", "Done"]
    assert bytes(sent[2].content) == b"state of epoch 2"
    assert sent[-1] == Done(config(0).identity, {"examples": 7})


def test_on_a_shared_disk_nothing_is_handed_over(monkeypatch, tmp_path):
    sent = messages(monkeypatch, tmp_path, save_every_other, checkpoints=tmp_path)
    assert not any(isinstance(message, Saved) for message in sent)


def test_the_end_of_a_shared_first_stage_is_handed_over_before_its_epoch_on_a_shared_disk_too(monkeypatch, tmp_path):
    def keep(job, report):
        report(epoch(1))
        job.first_stage.write_bytes(b"after epoch 2")
        report(epoch(2))
        report(epoch(3))
        return {}

    for checkpoints in (None, tmp_path):
        job = Job(config(0), tmp_path, first_stage=tmp_path / "first-stage.pt")
        job.first_stage.unlink(missing_ok=True)
        monkeypatch.setattr(ray_task, "_Stopping", lambda home: lambda: False)
        sent = []
        ray_task._train(order(tmp_path, keep, checkpoints), job, sent.append)
        assert [type(message).__name__ for message in sent] == ["Reported", "Saved", "Reported", "Reported", "Done"]
        assert (bytes(sent[1].content), sent[1].first_stage) == (b"after epoch 2", True)


def test_a_run_that_is_asked_to_stop_hands_over_its_checkpoint_first(monkeypatch, tmp_path):
    def save_when_stopped(job, report):
        try:
            report(epoch(1))
        except BaseException:
            job.checkpoint.write_bytes(b"at the stop")
            raise

    *_, saved, stopped = messages(monkeypatch, tmp_path, save_when_stopped, stop_at=1)
    assert bytes(saved.content) == b"at the stop"
    assert stopped == Stopped(config(0).identity)


def test_whatever_ends_the_thread_is_told(monkeypatch, tmp_path):
    def interrupt(job, report):
        raise KeyboardInterrupt

    (failed,) = messages(monkeypatch, tmp_path, interrupt)
    assert isinstance(failed, Failed)
    assert "KeyboardInterrupt" in failed.error


def test_folders_of_killed_workers_are_removed_and_those_of_living_ones_are_not(monkeypatch, tmp_path):
    monkeypatch.setenv("SWR_CACHE", str(tmp_path))
    living = claim.take(tmp_path / "running" / "living")
    (tmp_path / "running" / "killed").mkdir()
    (tmp_path / "running" / "killed" / "checkpoint.pt").touch()
    with ray_task._folder(order(tmp_path)) as folder:
        assert {path.name for path in (tmp_path / "running").iterdir()} == {"living", folder.name}
    assert [path.name for path in (tmp_path / "running").iterdir()] == ["living"]
    living.release(remove=True)


def test_versions_are_compared_one_by_one():
    ours = {"Python": "3.11.7", "torch": "2.13.0", "swr": "1.0"}
    assert difference(ours, dict(ours), "node7") is None
    assert difference(ours, {**ours, "swr": "0.9"}, "node7") == "node7 has swr 0.9, the driver 1.0"
    assert set(versions()) == set(ours)


def test_epochs_are_sent_in_batches_and_the_end_at_once_with_all_before_it():
    outbox = ray_task.Outbox(pause=60)  # the test would hang if the end had to wait for the pause
    sent = [Reported(config(0).identity, epoch(number)) for number in (1, 2, 3)]
    for message in (*sent, Done(config(0).identity, {})):
        outbox.put(message)
    assert outbox.take() == [*sent, Done(config(0).identity, {})]


def test_a_checkpoint_does_not_wait_and_nothing_is_sent_twice():
    outbox = ray_task.Outbox(pause=60)
    first, second = (Reported(config(0).identity, epoch(number)) for number in (1, 2))
    saved = Saved(b"state")
    outbox.put(first)
    outbox.put(saved)
    assert outbox.take() == [first, saved]
    outbox.put(second)
    outbox.put(Stopped(config(0).identity))
    assert outbox.take() == [second, Stopped(config(0).identity)]


def test_epochs_alone_are_sent_after_the_pause():
    outbox = ray_task.Outbox(pause=0.01)
    sent = [Reported(config(0).identity, epoch(number)) for number in (1, 2)]
    for message in sent:
        outbox.put(message)
    assert outbox.take() == sent
