// A small protein job: helices with made-up sequences, in several forms of files, and a model of a few
// thousand parameters.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

#include "tests/e2e/job.hpp"

namespace pipeline::tests {

inline constexpr const char* kStructureModel = R"(hidden_dim = 16
num_encoder_layers = 2
num_decoder_layers = 2
num_heads = 2
pair_dim = 8
distogram = 0.1
data.noise = 0.1
)";
inline constexpr const char* kSequenceModel = R"(model = "esm2"
esm2 = { num_layers = 2, hidden_dim = 16, num_heads = 2 }
)";

inline constexpr const char* kEsmcModel = R"(model = "esmc"
esmc = { num_layers = 2, hidden_dim = 16, num_heads = 2, intermediate_dim = 40 }
)";

inline std::string protein_config(const std::string& model) {
  return reproducible_run("protein") + R"(pdb_path = "structures"
data.min_residues = 10
data.max_residues = 48
split = { folds = 4 }
)" + model +
         kShortTraining;
}

// The backbone of an ideal helix (Pauling 1951: 100 degrees and 1.5 Å a residue) with this sequence of
// three-letter names.
inline std::string helix(const Words& names, char chain, double shift = 0) {
  struct Place {
    const char* atom;
    double radius, angle, rise;  // Å, degrees, Å
  };
  constexpr Place kBackbone[] = {
      {" N  ", 1.55, -27, -0.9}, {" CA ", 2.3, 0, 0}, {" C  ", 1.7, 27, 1.1}, {" O  ", 2.0, 21, 2.3}};
  std::string text;
  int serial = 0;
  for (size_t i = 0; i < names.size(); ++i)
    for (const Place& place : kBackbone) {
      const double angle = (100.0 * static_cast<double>(i) + place.angle) * M_PI / 180;
      char line[96];
      std::snprintf(line, sizeof line, "ATOM  %5d %s %3s %c%4d    %8.3f%8.3f%8.3f  1.00 20.00           %c\n",
                    ++serial, place.atom, names[i].c_str(), chain, static_cast<int>(i) + 1,
                    place.radius * std::cos(angle) + shift, place.radius * std::sin(angle),
                    1.5 * static_cast<double>(i) + place.rise, place.atom[1]);
      text += line;
    }
  return text + "TER\n";
}

inline Words made_up_sequence(int length, uint64_t seed) {
  static constexpr const char* kNames[] = {"ALA", "CYS", "ASP", "GLU", "PHE", "GLY", "HIS",
                                           "ILE", "LYS", "LEU", "MSE", "ASN", "PRO", "GLN",
                                           "ARG", "SER", "THR", "VAL", "TRP", "TYR"};
  Words names;
  for (int i = 0; i < length; ++i) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    names.emplace_back(kNames[(seed >> 33) % 20]);
  }
  return names;
}

class SmallProteinJob : public Job {
 public:
  static std::string config() { return protein_config(kStructureModel); }

  SmallProteinJob() {
    write_text(path("train.toml"), config());
    std::filesystem::create_directories(path("structures/more"));
    for (int i = 0; i < 24; ++i) {
      const std::string name = (i % 3 == 0 ? "structures/more/p" : "structures/p") + std::to_string(i) +
                               (i % 2 == 0 ? ".pdb" : ".ent");
      std::string text = helix(made_up_sequence(24 + 3 * i, static_cast<uint64_t>(i)), 'A');
      if (i % 6 == 0) text += helix(made_up_sequence(20, 100 + static_cast<uint64_t>(i)), 'B', 12);
      write_text(path(name), text + "END\n");
    }
    write_text(path("structures/broken.pdb"), "ATOM      1  N   ALA A   1      not a number\n");
    write_text(path("structures/notes.txt"), "not a structure\n");
  }
};

class SmallEsm2Job : public SmallProteinJob {
 public:
  static std::string config() { return protein_config(kSequenceModel); }

  SmallEsm2Job() { write_text(path("train.toml"), config()); }
};

class SmallEsmcJob : public SmallProteinJob {
 public:
  static std::string config() { return protein_config(kEsmcModel); }

  SmallEsmcJob() { write_text(path("train.toml"), config()); }
};

}  // namespace pipeline::tests
