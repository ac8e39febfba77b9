"""The command line as a user meets it: real processes, real files, a real model."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpgplvm
from dpgplvm.commands import main
from dpgplvm.datasets import make_views

COLUMNS = ["knee, left", 'the "hip"', "ankle", "wrist", "Höhe", "neck"]
PARAMETERS = ["--model", "bgplvm", "--n-latents", "2", "--n-inducing", "8", "--max-iter", "5", "--random-state", "0"]


def run(*arguments, code=0, **options):
    """A process of its own: what it writes to stdout and to stderr."""
    command = [sys.executable, "-m", "dpgplvm", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False, **options)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def read(path, **options):
    """A table as another reader has it, its numbers correctly rounded."""
    decimal = options.pop("decimal", ".")
    text = pd.read_csv(path, dtype=str, keep_default_na=False, **options)
    return text.map(lambda cell: float(cell.replace(decimal, ".")))


@pytest.fixture(scope="module")
def frame():
    Y = make_views(n_samples=30, columns=3, random_state=0).Y.round(4)
    Y[np.random.default_rng(0).random(Y.shape) < 0.08] = np.nan
    return pd.DataFrame(Y, columns=COLUMNS, index=pd.Index([f"person {n}" for n in range(len(Y))], name="id"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, frame):
    """A table, and a model that was fitted to it from the command line."""
    folder = tmp_path_factory.mktemp("commands")
    frame.to_csv(folder / "table.csv")
    out, err = run("fit", "table.csv", "--index-col", "id", *PARAMETERS, "-o", "model.dpgplvm", cwd=folder)
    (folder / "out").write_text(out)
    (folder / "err").write_text(err)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return dpgplvm.load(folder / "model.dpgplvm")


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def test_fit_saves_what_it_prints(folder, model, frame):
    assert (folder / "out").read_text() == f"{model.summary()}\n"
    given = {"n_latents": 2, "n_inducing": 8, "max_iter": 5, "random_state": 0}
    assert type(model) is dpgplvm.BayesianGPLVM
    assert given.items() <= model.get_params().items()
    assert list(model.feature_names_in_) == COLUMNS
    np.testing.assert_array_equal(np.where(frame.isna(), np.nan, model.impute()), frame)


def test_progress_is_on_stderr(folder, frame):
    first, *_, last = (folder / "err").read_text().splitlines()
    gaps = frame.isna()
    assert first == (
        f"dpgplvm: table.csv: 30 rows, 6 columns, gaps: {gaps.sum(axis=None)} ({gaps.mean(axis=None):.1%})"
    )
    assert last == "dpgplvm: the model is in model.dpgplvm"


def test_summary(here, model, capsys):
    assert main(["summary", "model.dpgplvm"]) == 0
    assert capsys.readouterr() == (f"{model.summary()}\n", "")
    assert main(["summary", "model.dpgplvm", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bound"] == model.elbo_
    assert told["parameters"]["n_latents"] == 2
    assert [column["name"] for column in told["columns"]] == COLUMNS
    assert [column["relevance"] for column in told["columns"]] == model.relevance_.tolist()
    assert told["groups"] == [{"name": "all columns", "columns": COLUMNS}]


@pytest.mark.parametrize("name", ["columns.csv", "columns.tsv", "columns.parquet", "columns.csv.gz"])
def test_a_table_of_the_columns(here, model, capsys, name):
    assert main(["summary", "model.dpgplvm", "--columns", name]) == 0
    assert capsys.readouterr() == (f"{model.summary()}\n", "")
    if name.endswith(".parquet"):
        got = pd.read_parquet(name)
    else:
        got = pd.read_csv(name, sep="\t" if name.endswith(".tsv") else ",", index_col="column")
    pd.testing.assert_frame_equal(got, model.to_frame().columns)


def test_a_table_of_the_columns_alone(here, model, capsysbinary):
    assert main(["summary", "model.dpgplvm", "--columns", "-"]) == 0
    assert capsysbinary.readouterr().out.decode() == model.to_frame().columns.to_csv()


def test_impute_in_a_pipe_keeps_every_letter_of_what_was_observed(folder, model, frame):
    """Columns in another order, numbers written in ways that no program would write them."""
    shuffled = frame[frame.columns[::-1]]
    text = shuffled.map(lambda value: "NA" if np.isnan(value) else f"{value:+.4f}0e0" if value > 0 else f"{value:.6f}")
    sent = text.to_csv().encode()
    out, err = run("impute", folder / "model.dpgplvm", "-", "--index-col", "id", input=sent)
    (folder / "piped.csv").write_text(out)
    got = pd.read_csv(folder / "piped.csv", index_col="id", dtype=str, keep_default_na=False)
    gaps = shuffled.isna()
    assert list(got.columns) == COLUMNS[::-1]
    pd.testing.assert_frame_equal(got[~gaps], text[~gaps].astype(got.dtypes.iloc[0]))
    np.testing.assert_array_equal(got.astype(float), model.impute(shuffled))
    assert err == f"dpgplvm: standard input: 30 rows, gaps filled: {gaps.sum(axis=None)}\n"


COSTUMES = {
    "plain.csv": (lambda frame: frame.to_csv(), []),
    "blank_lines.csv": (lambda frame: "\n\n" + frame.to_csv().replace("\n", "\n\n  \n"), []),
    "bom.csv": (lambda frame: "\ufeff" + frame.to_csv(), []),
    "quotes.csv": (lambda frame: frame.to_csv(quoting=csv.QUOTE_ALL), []),
    "spaces.csv": (lambda frame: frame.to_csv().replace(",", ",  ").replace("knee,   left", "knee, left"), []),
    "bars.csv": (lambda frame: frame.to_csv(sep="|"), []),
    "semicolons.csv": (lambda frame: frame.to_csv(sep=";", decimal=","), []),
    "marks.csv": (lambda frame: frame.fillna(-999).to_csv(), ["--missing", "-999,?"]),
    "question.csv": (lambda frame: frame.to_csv(na_rep="?"), ["--missing", "NA,?"]),
    "tabs.tsv": (lambda frame: frame.to_csv(sep="\t"), []),
    "tabs.txt": (lambda frame: frame.to_csv(sep="\t", decimal=","), []),
    "packed.csv.gz": (lambda frame: gzip.compress(frame.to_csv().encode()), []),
    "packed.tsv.gz": (lambda frame: gzip.compress(frame.to_csv(sep="\t").encode()), []),
    "latin.csv": (lambda frame: frame.to_csv().encode("latin-1"), ["--encoding", "latin-1"]),
    "marked.csv": (lambda frame: frame.to_csv().encode("utf-16"), []),
    "known.csv": (lambda frame: ("\ufeff" + frame.to_csv()).encode(), ["--encoding", "utf-8"]),
    "blanks.txt": (lambda frame: frame.to_csv(sep=" ", na_rep="NA"), []),
    "trailing.csv": (lambda frame: frame.to_csv().replace("\n", ",\n"), []),
    "hash.csv": (lambda frame: frame.to_csv(sep="#"), ["--delimiter", "#"]),
    "more.csv": (
        lambda frame: frame.assign(junk="x", **{"more, junk": 1}).to_csv(),
        ["--drop", "junk", "--drop", "more, junk"],
    ),
    "french.csv": (
        lambda frame: (
            "\ufeff\r\n" + frame.to_csv(sep=";", decimal=",", quoting=csv.QUOTE_ALL, lineterminator="\r\n\r\n")
        ),
        [],
    ),
}


@pytest.mark.parametrize("name", COSTUMES)
def test_tables_in_all_their_costumes(here, model, frame, capsys, name):
    dress, options = COSTUMES[name]
    content = dress(frame)
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["transform", "model.dpgplvm", name, "--index-col", "id", *options, "-o", "latents.npz"]) == 0
    with np.load("latents.npz") as latents:
        np.testing.assert_array_equal(latents["Y"], model.transform(frame))
        assert latents["columns"].tolist() == model.get_feature_names_out().tolist()
        assert latents["index"].tolist() == frame.index.tolist()
    assert capsys.readouterr() == ("", "")


# A first column without a name, and a header without the name of the labels, as write.csv and write.table of R have it.
NAMELESS = {
    "pandas.csv": lambda frame: frame.rename_axis(None).to_csv(),
    "r.csv": lambda frame: frame.rename_axis(None).to_csv(quoting=csv.QUOTE_NONNUMERIC, na_rep="NA"),
    "r.txt": lambda frame: frame.rename_axis(None).to_csv(sep=" ", na_rep="NA").removeprefix('"" ').lstrip(" "),
    "r.tsv": lambda frame: frame.rename_axis(None).to_csv(sep="\t", na_rep="NA").lstrip("\t"),
}


@pytest.mark.parametrize("name", NAMELESS)
def test_a_first_column_without_a_name_has_the_labels_of_the_rows(here, model, frame, capsys, name):
    Path(name).write_text(NAMELESS[name](frame), encoding="utf-8")
    assert main(["transform", "model.dpgplvm", name, "-o", "latents.csv"]) == 0
    assert capsys.readouterr().err == (
        f"dpgplvm: {name}: the first column has no name, and is taken as labels of the rows\n"
    )
    latents = pd.read_csv("latents.csv", index_col=0)
    assert latents.index.tolist() == frame.index.tolist()
    assert Path("latents.csv").read_text().startswith(",")


def test_a_line_that_ends_with_a_delimiter_has_no_label(here, model, frame):
    text = frame.to_csv()
    Path("trailing.csv").write_text(text.replace("\n", ",\n").replace(",\n", "\n", 1), encoding="utf-8")
    assert main(["transform", "model.dpgplvm", "trailing.csv", "--index-col", "id", "-o", "latents.csv"]) == 0
    np.testing.assert_array_equal(read("latents.csv", index_col="id"), model.transform(frame))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet", "npz"])
def test_every_format_reads_back_to_the_bit(here, model, frame, suffix):
    filled, std = f"filled.{suffix}", f"std.{suffix}"
    index = ["--index-col", "id"]
    assert main(["impute", "model.dpgplvm", "table.csv", *index, "-o", filled, "--std", std, "-q"]) == 0
    index = index if suffix in ("csv", "tsv", "csv.gz") else []
    assert main(["impute", "model.dpgplvm", filled, *index, "-o", "again.csv", "-q"]) == 0
    assert main(["predict", "model.dpgplvm", "-o", f"latents.{suffix}"]) == 0
    again = read("again.csv", index_col=0)
    expected, spread = model.impute(frame, return_std=True)
    np.testing.assert_array_equal(again, expected)
    assert again.index.tolist() == frame.index.tolist()
    if suffix == "parquet":
        pd.testing.assert_frame_equal(pd.read_parquet(std), spread)


def test_ten_thousand_rows_in_the_worst_costume(folder, model, frame):
    """A byte-order mark, carriage returns, semicolons, decimal commas, quotes, line breaks within them, blank lines."""
    many = pd.concat([frame.dropna()] * 1000, ignore_index=True).head(10_000)
    many.iloc[::1000, 2] = np.nan
    many.index = pd.Index([f'{n};\n"the next"' for n in range(10_000)], name="id")
    content = "\ufeff" + many.to_csv(sep=";", decimal=",", quoting=csv.QUOTE_ALL, lineterminator="\r\n\r\n")
    (folder / "many.csv").write_text(content, encoding="utf-8", newline="")
    out, err = run("impute", "model.dpgplvm", "many.csv", "--index-col", "0", cwd=folder)
    (folder / "piped.csv").write_text(out, encoding="utf-8", newline="")
    got = read(folder / "piped.csv", index_col="id", sep=";", decimal=",")
    assert err == "dpgplvm: many.csv: 10000 rows, gaps filled: 10\n"
    assert got.index.tolist() == many.index.tolist()
    np.testing.assert_array_equal(got, model.impute(many))


def test_latents_and_back(here, model, frame, capsys):
    command = ["transform", "model.dpgplvm", "table.csv", "--index-col", "id", "-o", "latents.csv", "--std", "std.csv"]
    assert main(command) == 0
    latents, std = read("latents.csv", index_col="id"), read("std.csv", index_col="id")
    inferred = model.infer(frame)
    np.testing.assert_array_equal(latents, inferred.mean)
    np.testing.assert_array_equal(std, np.sqrt(inferred.variance))
    latents[latents.columns[::-1]].to_csv("reversed.csv")
    index = ["--index-col", "id"]
    output = ["-o", "columns.csv", "--std", "spread.csv", "--quantiles", "0.1,0.9"]
    assert main(["predict", "model.dpgplvm", "reversed.csv", "--latent-std", "std.csv", *index, *output]) == 0
    mean, spread = model.predict(inferred.mean, variance=np.sqrt(inferred.variance) ** 2, return_std=True)
    quantiles = model.predict_quantiles(inferred.mean, (0.1, 0.9), variance=np.sqrt(inferred.variance) ** 2)
    expected = {"columns": mean, "spread": spread, "columns_q0.1": quantiles[0], "columns_q0.9": quantiles[1]}
    for name, values in expected.items():
        got = read(f"{name}.csv", index_col="id")
        assert list(got.columns) == COLUMNS
        assert got.index.equals(frame.index)
        np.testing.assert_array_equal(got, values)
    assert capsys.readouterr() == ("", "")


def test_columns_that_the_model_does_not_know_are_left_out(here, model, frame, capsys):
    frame.assign(school="Pasteur", age=7).to_csv("more.csv")
    assert main(["transform", "model.dpgplvm", "more.csv", "--index-col", "id", "-o", "latents.csv"]) == 0
    assert capsys.readouterr().err == ("dpgplvm: more.csv: left out 'school', 'age', which the model does not know\n")
    np.testing.assert_array_equal(read("latents.csv", index_col="id"), model.transform(frame))
    frame.rename(columns={"neck": "head"}).to_csv("renamed.csv")
    assert main(["transform", "model.dpgplvm", "renamed.csv", "--index-col", "id"]) == 2
    assert "error: Y lacks column 'neck'" in capsys.readouterr().err
    read("latents.csv", index_col="id").assign(place=3).to_csv("placed.csv")
    assert main(["predict", "model.dpgplvm", "placed.csv", "-o", "columns.csv", "-q"]) == 0
    np.testing.assert_array_equal(read("columns.csv"), model.predict(model.transform(frame)))


def test_without_a_table_it_is_that_of_the_fit(here, model, frame):
    for command in ("transform", "impute", "predict"):
        assert main([command, "model.dpgplvm", "-o", f"{command}.csv", "-q"]) == 0
    expected = {
        "transform": model.latents_,
        "impute": model.impute(),
        "predict": model.predict(model.latents_, variance=model.latent_variance_),
    }
    for command, values in expected.items():
        got = read(f"{command}.csv", index_col="id")
        assert got.index.tolist() == frame.index.tolist()
        np.testing.assert_array_equal(got, values)


def test_quantiles_of_gaps(here, model, frame):
    """In the order of the file's columns, which is not the model's."""
    frame[COLUMNS[::-1]].to_csv("turned.csv", index=False)
    assert main(["impute", "model.dpgplvm", "turned.csv", "-o", "filled.csv", "--quantiles", "0.025,0.975", "-q"]) == 0
    assert main(["impute", "model.dpgplvm", "turned.csv", "-o", "f.csv.gz", "--quantiles", "0.025", "-q"]) == 0
    assert gzip.decompress(Path("f_q0.025.csv.gz").read_bytes()) == Path("filled_q0.025.csv").read_bytes()
    for quantile, expected in zip(("0.025", "0.975"), model.impute_quantiles(frame, (0.025, 0.975)), strict=True):
        got = read(f"filled_q{quantile}.csv")
        assert list(got.columns) == COLUMNS[::-1]
        np.testing.assert_array_equal(got[COLUMNS], expected)


def test_views(here, capsys):
    views = ["arms", "legs", "legs", "arms", "arms", "legs"]
    pd.DataFrame({"view": views, "column": COLUMNS}).to_csv("views.csv", index=False)
    options = ["--n-latents", "2", "--n-inducing", "8", "--max-iter", "1", "--random-state", "0", "-q"]
    assert main(["fit", "table.csv", "--index-col", "id", "--views", "views.csv", *options, "-o", "mrd.dpgplvm"]) == 0
    model = dpgplvm.load("mrd.dpgplvm")
    assert type(model) is dpgplvm.MRD
    assert model.groups_.tolist() == [0, 1, 1, 0, 0, 1]
    assert main(["summary", "mrd.dpgplvm", "--json"]) == 0
    groups = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))["groups"]
    assert [group["name"] for group in groups] == ["arms", "legs"]


INTERRUPTED = """
import os, signal, sys
from dpgplvm.commands import main
from dpgplvm.inference.objective import Objective

evaluate, calls = Objective.evaluate, []

def evaluating(self, free):
    calls.append(free)
    if len(calls) == 6:
        os.kill(os.getpid(), signal.SIGINT)
    return evaluate(self, free)

Objective.evaluate = evaluating
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def interrupted(folder, frame):
    """A fit of a table without names, ended by a signal."""
    np.savez(folder / "arrays.npz", Y=frame)
    fit = ["fit", "arrays.npz", *PARAMETERS, "--max-iter", "1000", "-o", "half.dpgplvm"]
    command = [sys.executable, "-c", INTERRUPTED, *fit]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folder)


def test_ctrl_c_saves_the_best_so_far(folder, interrupted):
    assert interrupted.returncode == 130, interrupted.stderr
    assert "Ctrl-C again gives it up" in interrupted.stderr
    assert interrupted.stderr.splitlines()[-1] == "dpgplvm: interrupted: the best model so far is in half.dpgplvm"
    assert "Traceback" not in interrupted.stderr
    model = dpgplvm.load(folder / "half.dpgplvm")
    assert model.outcome_ is dpgplvm.Outcome.INTERRUPTED
    assert interrupted.stdout == f"{model.summary()}\n"


@pytest.mark.usefixtures("interrupted")
def test_a_table_without_names(here, frame):
    """Neither in a file of arrays nor in a file of text: columns have positions."""
    frame.to_csv("headless.csv", header=False, index=False)
    assert main(["impute", "half.dpgplvm", "headless.csv", "--no-header", "-q", "-o", "filled.csv"]) == 0
    assert main(["impute", "half.dpgplvm", "arrays.npz", "-q", "-o", "filled.npz"]) == 0
    expected = dpgplvm.load("half.dpgplvm").impute(frame.to_numpy())
    with np.load("filled.npz") as filled:
        assert filled.files == ["Y"]
        np.testing.assert_array_equal(filled["Y"], expected)
    np.testing.assert_array_equal(read("filled.csv", header=None), expected)


def test_ctrl_c_before_there_is_anything(here, failing, capsys):
    failing(lambda n, held: n == 1, KeyboardInterrupt())
    assert main(["fit", "table.csv", "--index-col", "id", *PARAMETERS, "-o", "none.dpgplvm"]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == (
        "dpgplvm: interrupted before there was a model: nothing was saved"
    )
    assert not Path("none.dpgplvm").exists()


def test_a_reader_that_has_had_enough(folder):
    command = [sys.executable, "-m", "dpgplvm", "summary", "model.dpgplvm"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=100) == 128 + signal.SIGPIPE


def test_a_place_that_is_gone_when_the_fit_is_done(here, model, monkeypatch, capsys):
    """As a disk that has filled up meanwhile: what was fitted is not lost."""
    place = here / "soon gone"
    place.mkdir()

    def fit(self, Y):
        place.rmdir()
        return model

    monkeypatch.setattr(dpgplvm.BayesianGPLVM, "fit", fit)
    assert main(["fit", "table.csv", "--index-col", "id", *PARAMETERS, "-o", str(place / "m.dpgplvm")]) == 0
    err = capsys.readouterr().err
    rescued = Path(err.strip().rpartition(" is in ")[2])
    assert f"warning: {place / 'm.dpgplvm'} could not be written" in err
    assert dpgplvm.load(rescued).summary() == model.summary()
    rescued.unlink()
    rescued.parent.rmdir()


@pytest.mark.slow
def test_demo_to_the_end(here, capsys):
    assert main(["demo", "--quick", "-o", "shown"]) == 0
    out = capsys.readouterr().out
    for name in ("table.csv", "model.dpgplvm", "groups.png"):
        assert os.path.getsize(os.path.join("shown", name)) > 1000
        assert os.path.join("shown", name) in out
    assert main(["transform", "shown/model.dpgplvm", "shown/table.csv", "-o", "shown/latents.csv"]) == 0
    assert len(read("shown/latents.csv")) == len(read("shown/table.csv"))
