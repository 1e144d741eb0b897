"""Methods that know no GPU: programs, functions and permutations go in, numbers come out."""
