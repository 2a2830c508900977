"""Times our readers of structures and sequences and Biopython's in turns; see scripts/bench/parsing.

Each reads each file from the page cache: ours gives the protein chains of the first model (amino acids, backbone), theirs is get_structure(), gzip's
text as a handle, before anybody takes residues out of it. What is counted there are amino acids with a CA, in the first model.
"""

import argparse
import gzip
import statistics
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import Bio
from Bio import SeqIO
from Bio.PDB import FastMMCIFParser, MMCIFParser, PDBParser
from Bio.PDB.Polypeptide import is_aa
from Bio.SeqIO.FastaIO import SimpleFastaParser

from side_by_side import Timed

KINDS = {"PDB": (".pdb", ".ent"), "PDB, gzipped": (".pdb.gz", ".ent.gz"), "mmCIF": (".cif", ".mmcif"), "mmCIF, gzipped": (".cif.gz", ".mmcif.gz")}


def kind_of(path):
    return next((kind for kind, endings in KINDS.items() if path.name.lower().endswith(endings)), None)


class Ours(Timed):
    name = "ours"
    read = Timed.ask


class Biopython:
    def __init__(self, name, pdb_parser, cif_parser):
        self.name, self.pdb, self.cif = name, pdb_parser, cif_parser

    def read(self, path):
        parser = self.cif if "mmCIF" in kind_of(path) else self.pdb
        begin = time.perf_counter()
        with gzip.open(path, "rt") if path.name.lower().endswith(".gz") else open(path) as file:
            structure = parser.get_structure(path.name, file)
        seconds = time.perf_counter() - begin
        return seconds, sum(is_aa(residue) and "CA" in residue for residue in next(iter(structure)).get_residues())


def time_library(reader, folder):
    """Opening the folder as the protein task does, one thread: without and with a cache of it."""
    with tempfile.TemporaryDirectory() as cache:
        answers = [subprocess.run([reader, "library", folder, cache], check=True, text=True, stdout=subprocess.PIPE).stdout for _ in range(2)]
    return [float(answer.split()[0]) for answer in answers]


def write_fasta(path, records):
    """Made-up proteins with UniRef's headers, as long and as composed as UniProt's, 60 letters a line."""
    import numpy

    rng = numpy.random.default_rng(0)
    shares = numpy.array([8.25, 1.38, 5.46, 6.72, 3.86, 7.07, 2.27, 5.91, 5.80, 9.65, 2.41, 4.06, 4.74, 3.93, 5.53, 6.63, 5.35, 6.86, 1.10, 2.92])
    letters = numpy.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", dtype=numpy.uint8)
    with open(path, "wb") as file:
        for i in range(records):
            if i % 10_000 == 0:
                lengths = numpy.clip(rng.gamma(2.5, 130, size=10_000).astype(int), 30, 3000)
                all_letters, at = rng.choice(letters, size=lengths.sum(), p=shares / shares.sum()).tobytes(), 0
            sequence = all_letters[at : at + lengths[i % 10_000]]
            at += len(sequence)
            file.write(b">UniRef50_A0A%07d Uncharacterized protein n=1 Tax=Thing TaxID=1 RepID=A0A_X\n" % i)
            file.writelines(sequence[begin : begin + 60] + b"\n" for begin in range(0, len(sequence), 60))


def their_sequences(path, simple):
    """Biopython's records, and its faster reader of pairs of title and letters."""
    begin = time.perf_counter()
    with open(path, encoding="ascii") as file:
        count = sum(len(letters) for _, letters in SimpleFastaParser(file)) if simple else sum(len(record) for record in SeqIO.parse(file, "fasta"))
    return time.perf_counter() - begin, count


def compare_sequences(reader, records, rounds):
    with tempfile.TemporaryDirectory() as folder:
        fasta = Path(folder) / "made-up.fasta"
        write_fasta(fasta, records)
        ours = Ours(reader, "sequences")
        readers = {"ours": ours.read, "SeqIO.parse": lambda path: their_sequences(path, False), "SimpleFastaParser": lambda path: their_sequences(path, True)}
        seconds, residues = {name: [] for name in readers}, set()
        for turn in range(rounds + 1):
            for name, read in readers.items():
                took, count = read(fasta)
                residues.add(count)
                if turn > 0:
                    seconds[name].append(took)
        ours.close()
        assert len(residues) == 1, f"they read {residues} residues"
        medians = {name: statistics.median(took) for name, took in seconds.items()}
        print(f"{records:,} FASTA records, {residues.pop():,} residues, {fasta.stat().st_size / 1e6:.0f} MB; Biopython {Bio.__version__}; one core; {rounds} rounds")
        for name, median in medians.items():
            print(f"  {name:<18} {median:7.2f} s  {median / medians['ours']:5.1f} times ours  ({min(seconds[name]):.2f} to {max(seconds[name]):.2f})")
        for what in ("made", "opened again"):
            answer = subprocess.run([reader, "store", fasta, folder], check=True, text=True, stdout=subprocess.PIPE).stdout
            print(f"  the task's file of sequences, {what}: {float(answer.split()[0]):.2f} s")


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench/parsing", description="Our reader of structures beside Biopython's.")
    parser.add_argument("--reader", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--structures", type=Path, required=True, help="a folder with PDB and mmCIF files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sequences", type=int, metavar="N", help="in place of structures, a FASTA file of so many made-up records")
    arguments = parser.parse_args()
    if arguments.sequences:
        return compare_sequences(arguments.reader, arguments.sequences, arguments.rounds)

    warnings.simplefilter("ignore")
    paths = sorted(path for path in arguments.structures.resolve().rglob("*") if kind_of(path))
    ours = Ours(arguments.reader, "files")
    slow, fast = (Biopython(name, PDBParser(QUIET=True), cif(QUIET=True))
                  for name, cif in (("Biopython", MMCIFParser), ("Biopython, FastMMCIFParser", FastMMCIFParser)))
    seconds, residues = {}, {}  # by contestant and path
    for turn in range(arguments.rounds + 1):
        for contestant in (ours, slow, fast):
            for path in paths:
                if contestant is fast and "mmCIF" not in kind_of(path):
                    continue
                took, residues[contestant, path] = contestant.read(path)
                if turn > 0:  # the first turn warms all up
                    seconds.setdefault((contestant, path), []).append(took)
    ours.close()

    print(f"{len(paths)} files; Biopython {Bio.__version__}; one core; {arguments.rounds} rounds")
    rows = [(kind, [path for path in paths if kind_of(path) == kind], slow) for kind in KINDS]
    rows += [(f"{kind}, {fast.name.split()[1]}", chosen, fast) for kind, chosen, _ in rows if "mmCIF" in kind]
    rows += [("all", paths, slow)]
    for label, chosen, theirs in rows:
        if not chosen:
            continue
        mine, peer = ([sum(seconds[c, path][n] for path in chosen) for n in range(arguments.rounds)] for c in (ours, theirs))
        ratios = [b / a for a, b in zip(mine, peer)]
        count, theirs_count = (sum(residues[c, path] for path in chosen) for c in (ours, theirs))
        print(f"{label:31} {len(chosen):3} files  residues {count} and {theirs_count}  ours {1e3 * statistics.median(mine):7.1f} ms "
              f"({count / statistics.median(mine):9.0f} residues/s)  theirs {1e3 * statistics.median(peer):8.1f} ms  "
              f"ratio {statistics.median(ratios):5.1f} ({min(ratios):.1f} to {max(ratios):.1f})")
    cold, warm = time_library(arguments.reader, arguments.structures)
    print(f"the folder as the task opens it, one thread: {1e3 * cold:.1f} ms without a cache, {1e3 * warm:.1f} ms with it")


if __name__ == "__main__":
    main()
