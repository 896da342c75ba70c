"""Calls a function as the program of a new interpreter: python3 _call.py FILE. The file contains a pickle of the module path,
and a pickle of the function and its arguments (functions.py), which is loaded once its module can be found."""
import pickle
import sys


def main() -> None:
    with open(sys.argv.pop(), "rb") as file:
        path, call = pickle.load(file)
    sys.path[:] = path
    function, args, kwargs = pickle.loads(call)
    function(*args, **kwargs)


if __name__ == "__main__":
    main()
