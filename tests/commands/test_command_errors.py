"""What the command line says to those who slip: one line, the right exit code, and nothing lost or waited for."""

from __future__ import annotations

import gzip
import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils._param_validation import StrOptions

import dpgplvm
from dpgplvm.commands import _parser, main
from dpgplvm.commands.delimited import Style, number
from dpgplvm.commands.options import MODELS, given_parameters, parameters

WITHOUT_JAX = """
import contextlib, io, json, sys
from dpgplvm.commands import main

answers = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = ended.code
    answers.append((code, out.getvalue(), err.getvalue()))
    assert not {"jax", "sklearn"} & set(sys.modules), f"imported without need by {arguments}"
print(json.dumps(answers))
"""

GOOD = b"a,b,c\n1,2,3\n4,5,7\n2,2,2\n"


def run(*arguments, cwd=None):
    command = [sys.executable, "-m", "dpgplvm", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=cwd)


def without_jax(lines, cwd):
    """Exit code, stdout and stderr of several command lines, all in one process to save its start."""
    command = [sys.executable, "-c", WITHOUT_JAX, json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_one_sentence(err, sentence):
    assert err.startswith("dpgplvm: error: ")
    assert err.count("\n") == 1
    assert sentence in err


def test_help_without_jax(tmp_path):
    names = ("demo", "fit", "summary", "transform", "impute", "predict", "report", "explore")
    commands = [[], *([name] for name in names)]
    answers = without_jax([[*command, "--help"] for command in commands], tmp_path)
    for command, (code, out, err) in zip(commands, answers, strict=True):
        assert (code, err) == (0, "")
        assert ("examples:" in out) == bool(command)
    assert all(f"--{name.replace('_', '-')}" in answers[2][1] for name in parameters())


def test_version_and_help_as_a_module():
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"dpgplvm {dpgplvm.__version__}\n", "")
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(
        command in done.stdout
        for command in ("demo", "fit", "summary", "transform", "impute", "predict", "report", "explore")
    )


FILES = {
    "empty": (b"", "data.csv is empty"),
    "blank": (b"\n\n  \n", "data.csv is empty"),
    "header only": (b"a,b,c\n", "no rows"),
    "two of a name": (b"a,b,a\n1,2,3\n", "more than one column named 'a'"),
    "text": (b"a,who,c\n1,Jo,3\n1,Al,3\n", "text in column 'who' ('Jo' in line 2): use --index-col or --drop"),
    "two columns of text": (b"a,who,c\n1,Jo,ok\n", "'who' ('Jo' in line 2), 'c' ('ok' in line 2)"),
    "underscore": (b"a,b\n1,1_000\n", "('1_000' in line 2)"),
    "both marks": (b"a;b\n1,5;1.5\n", "--decimal"),
    "a line too long": (b"a,b\n1,2\n\n1,2,3\n", "line 4 of data.csv has 3 cells, the first line has 2"),
    "a line too short": (b"a,b,c\n1,2,3\n4\n", "line 3 of data.csv has 1 cell, the first line has 3"),
    "a quote left open": (b'a,b\n1,"2\n3,4\n', "quote that is out of place"),
    "latin-1": (b"a,b\n1,2\n\xe9,3\n", "not UTF-8 (byte 0xe9 in line 3)"),
    "utf-16 without a mark": (
        "a,b\n1,2\n\u00e9,3\n".encode("utf-16-le"),
        "not UTF-8 (byte 0xe9 in line 3): say what it is",
    ),
    "half of a utf-16 character": ("a,b\n1,2\n".encode("utf-16")[:-1], "not UTF-16"),
    "half of a compressed file": (gzip.compress(b"a,b\n1,2\n")[:-9], "data.csv cannot be unpacked"),
    "nonsense that looks compressed": (b"\x1f\x8b" + bytes(20), "data.csv cannot be unpacked"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_cannot_be_used(tmp_path, kind):
    content, sentence = FILES[kind]
    (tmp_path / "data.csv").write_bytes(content)
    done = run("fit", "data.csv", "-o", "m.dpgplvm", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert_one_sentence(done.stderr, sentence)


SLIPS = {
    "no command": ([], "required: COMMAND"),
    "no data": (["fit"], "required: DATA"),
    "an option that is none": (["fit", "data.csv", "--latents", "3"], "--latents 3 (see dpgplvm fit --help)"),
    "one file too many": (["fit", "data.csv", "m.dpgplvm"], "arguments: m.dpgplvm (see dpgplvm fit --help)"),
    "no number": (["fit", "data.csv", "--n-latents", "some"], "--n-latents: 'some' is not a whole number or none"),
    "no choice": (["fit", "data.csv", "--noise", "loud"], "'loud' is not auto, group, column"),
    "a number for a choice": (["fit", "data.csv", "--kernel", "3"], "'3' is not auto, rbf"),
    "no pair": (["fit", "data.csv", "--concentration-prior", "1"], "'1' is not two numbers"),
    "another model's": (["fit", "data.csv", "--model", "mrd", "--n-starts", "2"], "--n-starts does not go with"),
    "views for another": (["fit", "data.csv", "--model", "bgplvm", "--views", "v.csv"], "--views does not go with"),
    "no such file": (["fit", "there is none.csv"], "there is none.csv does not exist"),
    "a folder": (["fit", "."], ". is a folder"),
    "an unknown kind": (["fit", "data.xlsx"], ".parquet, .pq, .npz; spreadsheets save theirs as CSV"),
    "an index that is none": (
        ["fit", "data.csv", "--index-col", "id"],
        "--index-col id: data.csv has columns 'a', 'b'",
    ),
    "a number too high": (["fit", "data.csv", "--drop", "0,3"], "--drop 3"),
    "nothing left": (["fit", "data.csv", "--drop", "a,b,c"], "no columns left"),
    "delimiter": (["fit", "data.csv", "--delimiter", ";;"], "--delimiter is ';;'"),
    "two commas": (["fit", "data.csv", "--delimiter", ",", "--decimal", ","], "both a comma"),
    "another delimiter": (["fit", "data.csv", "--delimiter", "tab"], "'a,b,c' ('1,2,3' in line 2)"),
    "no encoding": (["fit", "data.csv", "--encoding", "klingon"], "--encoding is 'klingon', which is not known"),
    "names in arrays": (["summary", "data.csv", "--columns", "c.npz"], "c.npz is for numbers alone"),
    "no folder": (["fit", "data.csv", "-o", "none/m.dpgplvm"], "there is no folder none"),
    "a file for a folder": (["fit", "data.csv", "-o", "data.csv/m.dpgplvm"], "there is no folder data.csv"),
    "another suffix": (["fit", "data.csv", "-o", "data.csv"], "ends in .dpgplvm"),
    "no views": (["fit", "data.csv", "--views", "data.csv"], "wants `column` and `view`"),
    "an output of no kind": (["impute", "data.csv", "data.csv", "-o", "out.doc"], "out.doc is of a kind"),
    "its own input": (["impute", "m", "data.csv", "-o", "data.csv"], "data.csv is read and would be overwritten"),
    "one for two": (["impute", "m", "data.csv", "-o", "o.csv", "--std", "./o.csv"], "given for two outputs"),
    "quantiles to nowhere": (["impute", "m", "data.csv", "--quantiles", "0.5"], "with -o"),
    "no quantiles": (["impute", "m", "data.csv", "-o", "o.csv", "--quantiles", "0.5,2"], "--quantiles has '2'"),
    "uncertain of what": (["predict", "m", "--latent-std", "data.csv"], "without LATENTS"),
    "no model": (["summary", "m.dpgplvm"], "m.dpgplvm does not exist"),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slips")
    for name in ("data.csv", "data.xlsx"):
        (folder / name).write_bytes(GOOD)
    found = without_jax([arguments for arguments, _ in SLIPS.values()], folder)
    assert sorted(path.name for path in folder.iterdir()) == ["data.csv", "data.xlsx"]
    assert (folder / "data.csv").read_bytes() == GOOD
    return dict(zip(SLIPS, found, strict=True))


@pytest.mark.parametrize("kind", SLIPS)
def test_a_slip(answers, kind):
    code, out, err = answers[kind]
    assert (code, out) == (2, "")
    assert_one_sentence(err, SLIPS[kind][1])


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="a folder in which nobody can write")
def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "data.csv").write_bytes(GOOD)
    done = run("fit", tmp_path / "data.csv", "-o", "/proc/m.dpgplvm")
    assert done.returncode == 2
    assert "/proc/m.dpgplvm cannot be written" in done.stderr


def test_names_that_are_numbers_are_asked_about(tmp_path):
    (tmp_path / "data.csv").write_bytes(b"1,2\n3,x\n")
    done = run("fit", "data.csv", cwd=tmp_path)
    assert "use --no-header if it is data" in done.stderr.splitlines()[0]


def test_the_librarys_own_sentences(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for content, sentence in (
        (b"a,b,c\n1,2,3\n4,5,3\n", "column 'c' of Y is constant: drop it"),
        (b"a,b,c\n1,2,\n4,5,NA\n", "column 'c' of Y was never observed"),
        (b"a,b,c\n1,2,inf\n4,5,1\n", "infinity"),
    ):
        Path("data.csv").write_bytes(content)
        assert main(["fit", "data.csv"]) == 2
        assert sentence in capsys.readouterr().err.splitlines()[-1]
    Path("data.csv").write_bytes(GOOD)
    assert main(["fit", "data.csv", "--n-latents", "0", "-q"]) == 2
    assert "'n_latents' parameter" in capsys.readouterr().err
    assert main(["summary", "data.csv"]) == 2
    assert "data.csv" in capsys.readouterr().err


def test_damaged_arrays_and_tables(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("two.npz", A=np.ones((3, 2)), B=np.ones((3, 2)))
    np.savez("names.npz", Y=np.ones((3, 2)), columns=["a"])
    np.savez("objects.npz", Y=np.array([[None]]))
    for name in ("rubbish.npz", "rubbish.parquet"):
        Path(name).write_bytes(b"rubbish")
    for name, sentence in {
        "two.npz": "'A', 'B' and no Y",
        "names.npz": "columns has shape (1,)",
        "objects.npz": "cannot be read as NPZ",
        "rubbish.npz": "cannot be read as NPZ",
        "rubbish.parquet": "cannot be read as Parquet",
    }.items():
        assert main(["fit", name]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert sentence in err


def test_a_package_that_is_missing(tmp_path, capsys, monkeypatch):
    (tmp_path / "data.csv").write_bytes(GOOD)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert main(["fit", str(tmp_path / "data.csv")]) == 2
    assert "needs pandas: pip install 'dpgplvm[cli]'" in capsys.readouterr().err


def test_the_unexpected(tmp_path, capsys, monkeypatch):
    """Neither the user's fault nor in need of a traceback, unless one is asked for."""

    def broken(self, Y):
        raise ZeroDivisionError("somewhere\ndeep")

    monkeypatch.setattr(dpgplvm.DPGPLVM, "fit", broken)
    (tmp_path / "data.csv").write_bytes(GOOD)
    fit = ["fit", str(tmp_path / "data.csv"), "-q"]
    assert main(fit) == 1
    assert capsys.readouterr().err == (
        "dpgplvm: error: unexpected ZeroDivisionError: somewhere deep (--debug shows where)\n"
    )
    assert main([*fit, "--debug"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "in broken" in err


def test_warnings_are_lines(tmp_path, capsys, monkeypatch):
    from dpgplvm.advice import FitWarning

    def doubtful(self, Y):
        import warnings

        warnings.warn("look\nat it", FitWarning, stacklevel=2)
        raise ValueError("enough")

    monkeypatch.setattr(dpgplvm.DPGPLVM, "fit", doubtful)
    (tmp_path / "data.csv").write_bytes(GOOD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.filters", [])
        assert main(["fit", str(tmp_path / "data.csv"), "-q"]) == 2
    assert capsys.readouterr().err == "dpgplvm: warning: look at it\ndpgplvm: error: enough\n"


@pytest.mark.parametrize(("steps", "is_told"), [("1,2,3,4", True), ("1,2,3,5", False), ("1,2,,4", False)])
def test_a_column_that_counts_rows_is_told(tmp_path, capsys, monkeypatch, steps, is_told):
    def unasked(self, Y):
        raise ValueError("enough")

    monkeypatch.setattr(dpgplvm.DPGPLVM, "fit", unasked)
    rows = [f"{step},{step}.5,{n * n}" for n, step in enumerate(steps.split(","))]
    (tmp_path / "data.csv").write_text("\n".join(["the row,a,b", *rows]))
    assert main(["fit", str(tmp_path / "data.csv"), "-q", "--drop", "a"]) == 2
    told = "dpgplvm: warning: column 'the row' only counts the rows: leave it out with --drop 'the row', or take it as "
    assert capsys.readouterr().err.startswith(told) is is_told


def estimators():
    return {model: getattr(dpgplvm, name) for model, name in MODELS.items()}


def test_every_parameter_is_an_option_with_its_default():
    found = {(name, model): default for name, by_model in parameters().items() for model, default in by_model.items()}
    for model, estimator in estimators().items():
        for name, parameter in inspect.signature(estimator).parameters.items():
            if name not in ("views", "warm_start"):
                default = parameter.default
                text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
                assert found.pop((name, model)) == ("Hyperprior()" if default == dpgplvm.Hyperprior() else text)
    assert not found


@pytest.mark.parametrize("model", MODELS)
def test_defaults_and_choices_are_what_the_estimators_allow(model):
    estimator = estimators()[model]
    for name, by_model in parameters().items():
        if model not in by_model or by_model[model] == "Hyperprior()":
            continue
        option, default = f"--{name.replace('_', '-')}", by_model[model]
        options = [choice for part in estimator._parameter_constraints[name] for choice in choices_of(part)]
        for text in {default, *options}:
            words = [f"{option}={text}"] if default not in ("True", "False") else [option]
            given = given_parameters(_parser().parse_args(["fit", "data.csv", *words]))
            estimator(**given)._validate_params()
            if text == default:
                assert given[name] == inspect.signature(estimator).parameters[name].default


def choices_of(constraint):
    return constraint.options if isinstance(constraint, StrOptions) else ()


def test_numbers_read_back_to_the_bit():
    bits = np.random.default_rng(0).integers(0, 2**64, size=3000, dtype=np.uint64).view(np.float64)
    numbers = [*bits[np.isfinite(bits)], 0.1, -0.0, 1e22, 5e-324, 1.7976931348623157e308, 3.0]
    for style in (Style(",", "."), Style(";", ",")):
        for value in numbers:
            text = style.written(value)
            assert style.delimiter not in text
            assert np.float64(number(text, style.decimal)).tobytes() == np.float64(value).tobytes()
