"""Saving: what cannot be saved, where to, and that the old file is whole whatever happens on the way."""

import io
import os
import re
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from saved_models import sample
from sklearn.exceptions import NotFittedError

import dpgplvm
from dpgplvm import DPGPLVM, MRD, RBF, BayesianGPLVM, FileError


@dataclass(frozen=True)
class Cauchy(RBF):
    pass


class Walker(BayesianGPLVM):
    pass


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda model: model.set_params(kernel=Cauchy()), r"^kernel is a Cauchy, a class of your own, .*pickle"),
        (
            lambda model: setattr(model, "_model", replace(model._model, kernel=Cauchy())),
            r"^_model\.kernel is a Cauchy, a class of your own",
        ),
        (lambda model: setattr(model, "__class__", Walker), "the model is a Walker, a class of your own"),
        (lambda model: setattr(model, "extra_", {"a": [lambda: 0]}), r"^extra_\.a\.0 is of type function, which"),
        (lambda model: setattr(model, "_frame", dict), "fitted to a builtins.dict"),
        (lambda model: setattr(model, "extra_", np.zeros(1, dtype="f,i")), "extra_ is of type ndarray, which"),
        (lambda model: setattr(model, "extra_", np.ma.zeros(1)), "extra_ is of type MaskedArray, which"),
        (
            lambda model: model.set_params(random_state=np.random.RandomState(np.random.PCG64(0))),
            "random_state draws from PCG64",
        ),
    ],
)
def test_what_cannot_be_saved_is_named_and_the_old_file_kept(change, sentence, tmp_path):
    model = dpgplvm.load(sample())
    model.save(tmp_path / "model.dpgplvm")
    before = (tmp_path / "model.dpgplvm").read_bytes()
    change(model)
    with pytest.raises(FileError, match=sentence):
        model.save(tmp_path / "model.dpgplvm")
    assert (tmp_path / "model.dpgplvm").read_bytes() == before
    assert os.listdir(tmp_path) == ["model.dpgplvm"]


@pytest.mark.parametrize("model", [BayesianGPLVM(), MRD(), DPGPLVM()])
def test_a_model_that_is_not_fitted_is_not_saved(model, tmp_path):
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model.dpgplvm")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", [str, Path, os.fsencode])
def test_paths_of_any_kind(kind, tmp_path):
    path = kind(str(tmp_path / "a model \N{PEDESTRIAN}"))
    dpgplvm.load(sample()).save(path)
    assert dpgplvm.load(path).n_latents_ == 2


def test_paths_that_cannot_be_saved_to(tmp_path):
    model = dpgplvm.load(sample())
    for path, error, sentence in [
        (tmp_path / "none" / "model.dpgplvm", FileNotFoundError, "its folder does not exist: make it first"),
        (tmp_path, IsADirectoryError, "it is a folder: give the path of a file"),
        (f"{tmp_path}/model/", IsADirectoryError, "it is a folder"),
        (tmp_path / ("x" * 300), OSError, "cannot be saved: File name too long"),
        (sample() / "model.dpgplvm", NotADirectoryError, "cannot be saved: Not a directory"),
        ("model\0", ValueError, "null character"),
        (None, TypeError, "path is a NoneType: give a str or a pathlib.Path"),
        (io.BytesIO(), TypeError, "path is a BytesIO"),
    ]:
        with pytest.raises(error, match=re.escape(sentence)) as caught:
            model.save(path)
        assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_paths_that_cannot_be_loaded_from(tmp_path):
    for path, error, sentence in [
        (tmp_path / "model.dpgplvm", FileNotFoundError, "model.dpgplvm cannot be loaded: there is no such file"),
        (tmp_path, IsADirectoryError, "it is a folder: give the path of a file"),
        ("model\0", ValueError, "null character"),
        (3, TypeError, "path is a int"),
    ]:
        with pytest.raises(error, match=re.escape(sentence)):
            dpgplvm.load(path)


def test_what_is_no_file_is_not_replaced(tmp_path):
    """As a device must not be."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe cannot be saved: it is not a regular file"):
        dpgplvm.load(sample()).save(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_link_is_followed_and_permissions_are_kept(tmp_path):
    model, target = dpgplvm.load(sample()), tmp_path / "data" / "model.dpgplvm"
    target.parent.mkdir()
    (tmp_path / "link").symlink_to(target)
    umask = os.umask(0o027)
    try:
        model.save(tmp_path / "link")
    finally:
        os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    target.chmod(0o600)
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert dpgplvm.load(target).n_latents_ == 2


SAVES_AND_STOPS_ON_THE_WAY = """
import sys
import time

import dpgplvm
import numpy as np

write, numbers = np.lib.format.write_array, iter(range(100))


def write_or_stop(*args, **options):
    if next(numbers) == 20:
        print("on the way", flush=True)
        time.sleep(600)
    write(*args, **options)


model = dpgplvm.load(sys.argv[1])
model.elbo_ = 1.0
np.lib.format.write_array = write_or_stop
model.save(sys.argv[1])
"""


def test_killed_while_it_saves_the_old_file_is_whole(tmp_path):
    path = tmp_path / "model.dpgplvm"
    path.write_bytes(sample().read_bytes())
    command = [sys.executable, "-c", SAVES_AND_STOPS_ON_THE_WAY, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "on the way\n"
        child.kill()
    assert child.returncode == -signal.SIGKILL
    assert path.read_bytes() == sample().read_bytes()
    # What is left behind is hidden, does not look like a model and is not taken for one.
    (left,) = set(os.listdir(tmp_path)) - {path.name}
    assert re.fullmatch(r"\.dpgplvm-\w+\.partial", left)
    with pytest.raises(FileError):
        dpgplvm.load(tmp_path / left)
    dpgplvm.load(path).save(path)
    assert path.read_bytes() == sample().read_bytes()


def test_the_new_file_is_on_the_disk_before_it_replaces_the_old_one(tmp_path, monkeypatch):
    model, path, done = dpgplvm.load(sample()), tmp_path / "model.dpgplvm", []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: (done.append(name), real(*args)))
    model.save(path)
    assert done == ["fsync", "replace", "fsync"]
    assert path.read_bytes() == sample().read_bytes()


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (KeyboardInterrupt("Ctrl-C"), "^Ctrl-C$"),
        (OSError(28, "No space left on device"), "model.dpgplvm cannot be saved: No space left on device$"),
    ],
)
def test_trouble_while_it_saves_leaves_nothing_behind(trouble, sentence, tmp_path, monkeypatch):
    path = tmp_path / "model.dpgplvm"
    path.write_bytes(b"before")
    model = dpgplvm.load(sample())

    def fail(*_, **__):
        raise trouble

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(type(trouble), match=sentence):
        model.save(path)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == [path.name]


def test_saved_by_two_at_once_a_file_is_always_one_of_theirs(tmp_path):
    models = [dpgplvm.load(sample(name)) for name in ("BayesianGPLVM", "MRD")]
    path, whole = tmp_path / "model.dpgplvm", {sample(type(model).__name__).read_bytes() for model in models}
    models[0].save(path)
    threads = [Thread(target=lambda model=model: [model.save(path) for _ in range(20)]) for model in models]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert path.read_bytes() in whole
    assert os.listdir(tmp_path) == [path.name]
