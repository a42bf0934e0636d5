"""Reads levels.csv and requests.csv with three programs and compares every value with the files'
own text. usage: check_csv.py SPARK_BENCH RESULTS…"""

import csv
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

import duckdb
import pandas

# Names that a spreadsheet would run, and one that only looks odd.
HOSTILE = ["=1+1", "=HYPERLINK(\"http://example.invalid\")", "+1", "-2+3", "@SUM(A1)", "\t=1", "a,\"b\"\nc"]
# Calc's CSV: comma, quotes, UTF-8, from line 1, quoted as needed, values and not what is shown.
AS_VALUES = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false"


def results(paths, folder):
    """The files, and copies of the smallest of them under hostile names."""
    files = []
    for path in map(pathlib.Path, paths):
        files += sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        sys.exit("no results files: " + " ".join(paths))
    one = json.loads(min(files, key=lambda file: file.stat().st_size).read_text())
    for number, name in enumerate(HOSTILE):
        one["meta"]["target"] = one["meta"]["model"] = one["meta"]["change"] = name
        one["meta"]["base_model"] = name
        copy = folder / f"hostile-{number}.json"
        copy.write_text(json.dumps(one))
        files.append(copy)
    return files


def same(text, value):
    """Whether a program's value is what stands in the file."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return text == ""
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return text == str(bool(value)).lower()
    if isinstance(value, str):
        if text in ("true", "false"):
            return value.lower() == text
        if text == value:
            return True
        value = value.replace("\r\n", "\n")
    if hasattr(value, "isoformat"):
        moment = value.isoformat().replace("+00:00", "")
        return text.rstrip("Z").startswith(moment) or moment.startswith(text.rstrip("Z"))
    try:
        # Fifteen digits are what a spreadsheet promises.
        return math.isclose(float(text), float(value), rel_tol=1e-14, abs_tol=0.0)
    except ValueError:
        return text.replace("\r\n", "\n") == value


def compare(program, path, columns, rows, wanted):
    head, *lines = wanted
    wrong = []
    if list(columns) != head:
        wrong.append(f"columns differ: {set(head) ^ set(columns)}")
    if len(rows) != len(lines):
        wrong.append(f"{len(rows)} rows instead of {len(lines)}")
    for number, (row, line) in enumerate(zip(rows, lines)):
        for name, value, text in zip(head, row, line):
            if not same(text, value):
                wrong.append(f"row {number + 1}, {name}: {text!r} became {value!r}")
    verdict = "ok" if not wrong else f"{len(wrong)} differences"
    print(f"{program:<12} {path.name:<14} {len(lines)} rows, {len(head)} columns: {verdict}")
    for text in wrong[:10]:
        print("    " + text)
    return not wrong


def with_calc(path, folder):
    """To xlsx and back; the rows, and whether a formula came into being."""
    profile = f"-env:UserInstallation=file://{folder}/profile"

    def convert(source, to, out):
        out.mkdir()
        command = ["soffice", profile, "--headless", "--convert-to", to, "--outdir", out, source]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        made = list(out.iterdir())
        if not made:
            sys.exit(f"soffice made nothing of {source}: {done.stdout} {done.stderr}")
        return made[0]

    sheet = convert(path, "xlsx", folder / f"xlsx-{path.stem}")
    with zipfile.ZipFile(sheet) as book:
        names = [name for name in book.namelist() if name.startswith("xl/worksheets/sheet")]
        has_formula = any(b"<f" in book.read(name) for name in names)
    back = convert(sheet, AS_VALUES, folder / f"back-{path.stem}")
    return read(back), has_formula


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def main():
    bench, *paths = sys.argv[1:]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="check-csv-"))
    good = True
    try:
        files = results(paths, folder)
        out = folder / "csv"
        subprocess.run([bench, "csv", *files, "--out", out], check=True, stdout=subprocess.DEVNULL)
        for name in ["levels.csv", "requests.csv"]:
            path = out / name
            wanted = read(path)
            frame = pandas.read_csv(path)
            rows = frame.astype(object).values.tolist()
            good &= compare("pandas", path, frame.columns, rows, wanted)
            query = duckdb.sql(f"SELECT * FROM '{path}'")
            good &= compare("DuckDB", path, query.columns, query.fetchall(), wanted)
            (head, *rows), has_formula = with_calc(path, folder)
            good &= compare("LibreOffice", path, head, rows, wanted)
            if has_formula:
                print(f"    {name}: a formula came into being")
                good = False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if good else 1)


main()
