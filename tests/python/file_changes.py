"""Changes files at random and prints what came of it: file_changes.py SEED [dry]. In a dry run it must print the same."""
import glob
import os
import pathlib
import random
import shutil
import sys

if sys.argv[2:]:
    from memtrace.dry import files

    files.begin()

FOLDERS = [".", "a", "b", "a/c", "n", "n/m", "link"]
chosen = random.Random()


def one_of(values):
    return chosen.choice(values)


def file():
    return os.path.join(one_of(FOLDERS), one_of("xyzs"))


def folder():
    return one_of(FOLDERS[1:-1])


def read(path):
    with open(path) as opened:
        return opened.read()


def write(path, mode):
    with open(path, mode) as opened:
        opened.write(str(chosen.randrange(100)))
        return opened.tell()


def write_low(path, flags):
    number = os.open(path, flags)
    try:
        return os.write(number, b"low") if flags & (os.O_WRONLY | os.O_RDWR) else os.read(number, 5)
    finally:
        os.close(number)


def scan(path):
    with os.scandir(path) as entries:
        return sorted((entry.name, entry.is_dir(), entry.is_file(), entry.is_symlink(), entry.is_file(follow_symlinks=False))
                      for entry in entries)


def remove_tree(path):
    if not os.path.islink(path) and one_of(range(3)) == 0:
        shutil.rmtree(path)


FLAGS = [os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_CREAT | os.O_EXCL,
         os.O_WRONLY | os.O_APPEND]
CHANGES = [
    lambda: read(file()),
    lambda: write(file(), one_of(["w", "a", "x", "r+", "w+"])),
    lambda: write_low(file(), one_of(FLAGS)),
    lambda: os.remove(file()),
    lambda: os.rename(file(), file()),
    lambda: os.replace(file(), file()),
    lambda: os.rename(folder(), folder()),
    lambda: os.mkdir(folder()),
    lambda: os.makedirs(folder(), exist_ok=one_of([True, False])),
    lambda: os.rmdir(folder()),
    lambda: sorted(os.listdir(one_of(FOLDERS))),
    lambda: scan(one_of(FOLDERS)),
    lambda: sorted((path, sorted(folders), sorted(files)) for path, folders, files in os.walk(one_of(FOLDERS))),
    lambda: os.stat(file()).st_size,
    lambda: [call(path) for path in [file()] for call in (os.path.exists, os.path.isfile, os.path.isdir, os.path.lexists)],
    lambda: os.symlink(one_of(["x", "../x", "a/y", "nothing"]), os.path.join(one_of(FOLDERS), "s")),
    lambda: os.readlink(os.path.join(one_of(FOLDERS), "s")),
    lambda: os.truncate(file(), chosen.randrange(4)),
    lambda: shutil.copyfile(file(), file()),
    lambda: shutil.copy2(file(), file()),
    lambda: shutil.move(file(), one_of(FOLDERS[:-1])),
    lambda: shutil.copytree(folder(), folder(), symlinks=True),
    lambda: remove_tree(folder()),
    lambda: sorted(glob.glob("**/*", recursive=True)),
    lambda: sorted(map(str, pathlib.Path().rglob("[xyzs]"))),
    lambda: pathlib.Path(file()).touch(),
    lambda: pathlib.Path(file()).unlink(missing_ok=True),
    lambda: os.access(file(), one_of([os.R_OK, os.W_OK, os.F_OK])),
    lambda: os.path.relpath(os.path.realpath(file())),
    lambda: os.path.samefile(file(), file()),
]

for number in range(500):
    chosen.seed(f"{sys.argv[1]} {number}")
    kind = chosen.randrange(len(CHANGES))
    try:
        result = CHANGES[kind]()
    except shutil.Error:
        result = "shutil.Error"
    except OSError as error:
        result = type(error).__name__, error.errno
    print(number, kind, result)
