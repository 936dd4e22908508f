"""`python -m npuc`: the command line where its script is not on the path."""

from npuc.cli import main

if __name__ == "__main__":
    main()
