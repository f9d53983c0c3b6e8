"""`python -m spec` writes the vectors."""

from spec.make_vectors import main

main()
