"""A file that is damaged, forged, from another version or no model's is read as it was or refused with a sentence."""

import io
import json
import pickle
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from saved_models import assert_same, contents, sample, samples, through_a_file

import dpgplvm
from dpgplvm import DPGPLVM, FileError, files


def header_of(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("model.json"))


def forged(path, folder, change):
    """A copy of a file with `change` made to its members, a dict of name to bytes, and checksums that are right."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(folder / "forged.dpgplvm", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return folder / "forged.dpgplvm"


def with_header(path, folder, change):
    """The same for the header, a dict."""

    def rewrite(members):
        header = json.loads(members["model.json"])
        change(header)
        members["model.json"] = json.dumps(header).encode()

    return forged(path, folder, rewrite)


def npy(array, **options):
    content = io.BytesIO()
    np.save(content, array, **options)
    return content.getvalue()


def refusal(path):
    """The sentence that a file is refused with."""
    with pytest.raises(FileError) as caught:
        dpgplvm.load(path)
    assert type(caught.value) is FileError
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None
    sentence = str(caught.value)
    assert sentence.startswith(f"{path} ")
    assert "\n" not in sentence
    return sentence


def test_cut_off_anywhere_it_is_refused(tmp_path):
    whole, path = sample().read_bytes(), tmp_path / "model.dpgplvm"
    for length in [*range(0, len(whole), 61), *range(len(whole) - 120, len(whole))]:
        path.write_bytes(whole[:length])
        assert re.search("damaged or incomplete|is empty|is not a file that dpgplvm saved", refusal(path)), length


@given(st.integers(0, sample("DPGPLVM").stat().st_size - 1), st.integers(1, 255))
@settings(max_examples=200)
def test_with_a_changed_byte_it_is_refused_or_all_the_same(tmp_path_factory, position, change):
    """The same where the byte is one that does not matter, such as a date."""
    whole = contents(dpgplvm.load(sample("DPGPLVM")))
    content = bytearray(sample("DPGPLVM").read_bytes())
    content[position] ^= change
    path = tmp_path_factory.getbasetemp() / "changed.dpgplvm"
    path.write_bytes(content)
    try:
        loaded = dpgplvm.load(path)
    except FileError:
        refusal(path)
    else:
        assert_same(contents(loaded), whole)


def test_every_changed_byte_of_an_array_is_seen(tmp_path):
    content, path = bytearray(sample().read_bytes()), tmp_path / "model.dpgplvm"
    values = dpgplvm.load(sample())._learned.tobytes()
    start = content.index(values)
    for position in range(start, start + len(values), 8):
        content[position] ^= 1
        path.write_bytes(content)
        assert "is damaged" in refusal(path)
        content[position] ^= 1


@given(st.binary(max_size=300))
@example(b"")
@example(pickle.dumps({"a": 1}))
@example(b"PK\x03\x04")
@example(b"PK\x05\x06" + bytes(18))
@example(b"latents_,1,2\n")
def test_what_is_no_archive_is_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "no archive.dpgplvm"
    path.write_bytes(content)
    refusal(path)


def test_an_archive_of_something_else_is_refused(tmp_path):
    np.savez(tmp_path / "arrays.npz", latents_=np.zeros(3))
    assert "an archive, but not one that dpgplvm saved" in refusal(tmp_path / "arrays.npz")


def test_every_member_is_needed(tmp_path):
    for name in zipfile.ZipFile(sample()).namelist():
        sentence = refusal(forged(sample(), tmp_path, lambda members, name=name: members.pop(name)))
        assert re.search("damaged|not one that dpgplvm saved", sentence), name


def test_every_attribute_is_needed(tmp_path):
    for part in ("parameters", "fitted"):
        sentence = refusal(with_header(sample(), tmp_path, lambda header, part=part: header.pop(part)))
        assert "is damaged" in sentence
    for name in header_of(sample())["fitted"]:
        sentence = refusal(with_header(sample(), tmp_path, lambda header, name=name: header["fitted"].pop(name)))
        assert f"it lacks {name}: take a copy" in sentence


@pytest.mark.parametrize("name", samples())
def test_shapes_must_go_together(name, tmp_path):
    """Every array with one row more, with one column more, and with one dimension more."""
    with np.load(sample(name)) as arrays:
        known = {name: arrays[name] for name in arrays if name in files._SHAPE_OF}
    assert {"_learned", "latents_", "state_/free/inducing", "state_/free/log_noise_precision"} < known.keys()
    for member, array in known.items():
        longer = [np.pad(array, [(0, int(axis == one)) for axis in range(array.ndim)]) for one in range(array.ndim)]
        for values in [array[None], *(longer if member != "history_" else [])]:
            replaced = {f"{member}.npy": npy(values)}
            path = forged(sample(name), tmp_path, lambda members, replaced=replaced: members.update(replaced))
            assert re.search(r"is damaged: \S+ has shape \(.*\), which does not go with", refusal(path)), member


class Trap:
    """Leaves a trace where it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("trapped"),)


def test_a_pickle_in_it_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trap = npy(np.array([Trap()], dtype=object), allow_pickle=True)
    pickle.loads(pickle.dumps(Trap()))
    assert Path("trapped").exists()
    Path("trapped").unlink()
    for content in (trap, pickle.dumps(Trap())):
        for member in ("latents_.npy", "more.npy", "model.json"):
            refusal(forged(sample(), tmp_path, lambda members, c=content, m=member: members.update({m: c})))
    (tmp_path / "pickle").write_bytes(pickle.dumps(Trap()))
    assert "is not a file that dpgplvm saved" in refusal(tmp_path / "pickle")
    assert not Path("trapped").exists()


def test_arrays_are_no_larger_than_the_file(tmp_path):
    whole = npy(np.zeros((12, 2)))
    for claimed in (b"(99999999999999, 2)", b"(12, 1), }         "):
        claim = re.sub(rb"\(12, 2\), }.{%d}" % (len(claimed) - 8), claimed, whole)
        path = forged(sample(), tmp_path, lambda members, c=claim: members.update({"latents_.npy": c}))
        assert "is damaged" in refusal(path)


def test_a_compressed_member_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "packed.dpgplvm", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in zipfile.ZipFile(sample()).namelist():
            packed.writestr(name, zipfile.ZipFile(sample()).read(name))
    assert "is damaged: its part 'model.json' is compressed" in refusal(tmp_path / "packed.dpgplvm")


def test_a_newer_format_is_named(tmp_path):
    path = with_header(sample(), tmp_path, lambda header: header.update(format=2, library="9.1", fitted="unheard of"))
    assert (
        f"has format 2 and was saved by dpgplvm 9.1, but dpgplvm {dpgplvm.__version__} reads formats up to 1: "
        "upgrade dpgplvm"
    ) in refusal(path)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda header: header.update({"class": "StreamingGPLVM"}), "StreamingGPLVM"),
        (lambda header: header["parameters"].update(n_streams=3), "n_streams"),
        (lambda header: header["parameters"].update(kernel={"Matern": {}}), "Matern"),
        (lambda header: header["parameters"].update(kernel={"RBF": {"degree": 3}}), "RBF.degree"),
        (lambda header: header["fitted"].update(_layout={"frame": "os.system"}), "frame"),
        (lambda header: header["fitted"].update(state_={"os.system": "true"}), "os.system"),
    ],
)
def test_what_only_a_newer_version_knows_is_named(change, what, tmp_path):
    path = with_header(sample(), tmp_path, lambda header: (change(header), header.update(library="9.1")))
    expected = f"was saved by dpgplvm 9.1 and holds {what}, which dpgplvm {dpgplvm.__version__} does not know: upgrade"
    assert expected in refusal(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(format="new"),
        lambda header: header.pop("format"),
        lambda header: header.update(fitted=[]),
        lambda header: header["fitted"].update(latents_={"array": "nowhere"}),
        lambda header: header["fitted"].update(latents_={"array": ["latents_"]}),
        lambda header: header["fitted"].update(latents_={}),
        lambda header: header["fitted"].update(latents_={"tuple": [], "dict": []}),
        lambda header: header["fitted"].update(state_={"State": {}}),
        lambda header: header["fitted"].update(outcome_={"Outcome": "sunny"}),
        lambda header: header["fitted"].update(extra_={"objects": [[3], [1]]}),
        lambda header: header["fitted"].update(n_features_in_="six"),
        lambda header: header["parameters"].update(hyperprior={"Hyperprior": {"scale": -1.0}}),
        lambda header: header["parameters"].update(random_state={"RandomState": [{"dict": []}, 0, 0.0]}),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(change, tmp_path):
    path = tmp_path / "forged.dpgplvm"
    with_header(sample(), tmp_path, change)
    assert "is damaged" in refusal(path)


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"format": 1e999}'])
def test_a_header_that_is_no_header_is_refused(text, tmp_path):
    refusal(forged(sample(), tmp_path, lambda members: members.update({"model.json": text})))


def test_a_parameter_that_came_later_gets_its_default(tmp_path):
    path = with_header(sample("DPGPLVM"), tmp_path, lambda header: header["parameters"].pop("n_jobs"))
    assert dpgplvm.load(path).n_jobs is DPGPLVM().n_jobs


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert "of a table of pandas, which is not installed: install pandas" in refusal(sample("DPGPLVM"))


def test_what_needs_no_package_works_without_it(tmp_path):
    model = dpgplvm.load(sample("MRD"))
    model._layout = model._layout._replace(backend="modin")
    model = through_a_file(model, tmp_path)
    assert "6 columns" in model.summary()
    with pytest.raises(ImportError, match="there is no modin to make DataFrames with: pip install modin"):
        model.predict(model.latents_)
