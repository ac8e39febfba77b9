"""Tables in whatever way they are written, in and out of the command line."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import COLUMNS, read, run

from dpgplvm.commands import main


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
