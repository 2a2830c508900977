#include "plugins/models/protein/geometry.hpp"
#include "plugins/data/residues/residue.hpp"

#include <gtest/gtest.h>

#include "tests/models/protein/proteins.hpp"

namespace pipeline::protein::testing {
namespace {

std::vector<int64_t> one_chain(size_t count) { return std::vector<int64_t>(count, 0); }

// All that is said of a structure.
struct Described {
  std::vector<float> frames, local;
  std::vector<uint8_t> flags;
};

Described describe_geometry(std::span<const residues::Residue> residues, const std::vector<int64_t>& chains,
                            const std::vector<uint8_t>& hidden) {
  Geometry geometry(residues, chains, hidden);
  Described all;
  for (size_t i = 0; i < residues.size(); ++i) {
    const auto frame = geometry.frame(i);
    const auto local = geometry.local(i);
    all.frames.insert(all.frames.end(), frame.begin(), frame.end());
    all.local.insert(all.local.end(), local.begin(), local.end());
    all.flags.push_back(geometry.flags(i));
  }
  return all;
}

// Residues of an ideal strand in the plane: N, CA, C in the trans zigzag of a peptide, all torsions 180
// degrees.
std::vector<residues::Residue> flat_strand(int64_t length) {
  std::vector<residues::Residue> residues(static_cast<size_t>(length));
  float x = 0;
  int up = 0;
  const auto next = [&](float step) {
    const residues::Vec3 at{x, up++ % 2 == 0 ? 0.0f : 0.8f, 0};
    x += step;
    return at;
  };
  for (int64_t i = 0; i < length; ++i) {
    residues::Residue& r = residues[static_cast<size_t>(i)];
    r.position = static_cast<int32_t>(i);
    r.flags = residues::Residue::kHasCa | residues::Residue::kHasFrame;
    r.n = next(1.2f), r.ca = next(1.2f), r.c = next(1.1f);
  }
  return residues;
}

TEST(Geometry, TorsionsOfAFlatStrandAre180Degrees) {
  const std::vector<residues::Residue> strand = flat_strand(4);
  const Described geometry = describe_geometry(strand, one_chain(4), {});
  const float* const local = &geometry.local[1 * kLocalFeatures];
  for (const int torsion : {0, 1, 2}) {
    EXPECT_NEAR(local[2 + 2 * torsion], 0, 1e-5) << torsion;
    EXPECT_NEAR(local[3 + 2 * torsion], -1, 1e-5) << torsion;
  }
}

TEST(Geometry, TheSignOfATorsionIsThatOfTheConvention) {
  // Looking along b-c, d is clockwise of a by 90 degrees: +90 (IUPAC-IUB 1970). Here phi of residue 1.
  std::vector<residues::Residue> two = flat_strand(2);
  two[0].c = {1, 0, 0};
  two[1].n = {0, 0, 0};
  two[1].ca = {0, 0, 1};
  two[1].c = {0, 1, 1};
  const Described geometry = describe_geometry(two, one_chain(2), {});
  const float phi = std::atan2(geometry.local[kLocalFeatures + 2], geometry.local[kLocalFeatures + 3]);
  // atan2 convention: viewed from N towards CA (+z away), from C(-1) at +x to C at +y.
  EXPECT_NEAR(phi, M_PI / 2, 1e-5);
}

TEST(Geometry, FramesAreRotationsAndMoveWithTheStructure) {
  const std::vector<residues::Residue> residues = chain(30);
  const Described geometry = describe_geometry(residues, one_chain(30), {});
  for (size_t i = 0; i < 30; ++i) {
    const at::Tensor r =
        at::tensor(std::vector<float>(&geometry.frames[i * kFrameSize], &geometry.frames[i * kFrameSize + 9]))
            .view({3, 3});
    EXPECT_LT((r.matmul(r.t()) - at::eye(3)).abs().max().item<float>(), 1e-5f);
    EXPECT_NEAR(at::linalg_det(r).item<float>(), 1, 1e-5);
  }
}

TEST(Geometry, LocalFeaturesDoNotChangeWhenAllIsMoved) {
  const std::vector<residues::Residue> residues = chain(80);
  const Described before = describe_geometry(residues, one_chain(80), {}),
                  after = describe_geometry(moved(residues), one_chain(80), {});
  for (size_t i = 0; i < before.local.size(); ++i) ASSERT_NEAR(before.local[i], after.local[i], 2e-4) << i;
}

TEST(Geometry, AMirrorImageIsAnother) {
  std::vector<residues::Residue> residues = chain(20), mirrored = residues;
  for (residues::Residue& r : mirrored) r.n.x = -r.n.x, r.ca.x = -r.ca.x, r.c.x = -r.c.x;
  const Described left = describe_geometry(residues, one_chain(20), {}),
                  right = describe_geometry(mirrored, one_chain(20), {});
  EXPECT_GT(std::abs(left.local[10 * kLocalFeatures + 2] - right.local[10 * kLocalFeatures + 2]), 0.1f);
}

TEST(Geometry, NothingIsSaidAcrossAGapOrAnotherChain) {
  std::vector<residues::Residue> residues = chain(12);
  for (size_t i = 6; i < 12; ++i) residues[i].position += 4;
  const Described gap = describe_geometry(residues, one_chain(12), {});
  EXPECT_EQ(gap.local[5 * kLocalFeatures + 4], 0);  // psi of the residue before it
  EXPECT_EQ(gap.local[6 * kLocalFeatures + 2], 0);  // phi of the one after
  EXPECT_NE(gap.local[6 * kLocalFeatures + 4], 0);
  std::vector<int64_t> chains = one_chain(12);
  for (size_t i = 3; i < 12; ++i) chains[i] = 1;
  const Described two = describe_geometry(chain(12), chains, {});
  EXPECT_EQ(two.local[3 * kLocalFeatures + 2], 0);
}

TEST(Geometry, HiddenAndMissingResiduesLookAlike) {
  std::vector<residues::Residue> residues = chain(25), without = residues;
  without[7].flags = 0;
  std::vector<uint8_t> hidden(25, 0);
  hidden[7] = 1;
  const Described a = describe_geometry(residues, one_chain(25), hidden),
                  b = describe_geometry(without, one_chain(25), {});
  EXPECT_EQ(a.frames, b.frames);
  EXPECT_EQ(a.local, b.local);
  EXPECT_EQ(a.flags, b.flags);
}

TEST(Geometry, APartOfAStructureIsDescribedAsInTheWholeInAnyOrderAndTwice) {
  const std::vector<residues::Residue> residues = chain(60);
  const std::vector<int64_t> chains = one_chain(60);
  const Described whole = describe_geometry(residues, chains, {});
  Geometry geometry(residues, chains, {});
  for (const size_t i : {40, 7, 59, 7, 0, 41}) {
    const auto local = geometry.local(i);
    for (size_t k = 0; k < local.size(); ++k)
      EXPECT_EQ(local[k], whole.local[i * kLocalFeatures + k]) << i << " " << k;
  }
}

// A part of a long structure costs no more than that part: a change before the question is seen, one after it
// is not.
TEST(Geometry, NeighboursAreLookedForWhenAResidueIsFirstAskedFor) {
  std::vector<residues::Residue> residues = chain(30);
  const std::vector<int64_t> chains = one_chain(30);
  Geometry geometry(residues, chains, {});
  const auto local = [](Geometry& of, size_t i) {
    return std::vector<float>(of.local(i).begin(), of.local(i).end());
  };
  Geometry unchanged(residues, chains, {});
  const std::vector<float> fifth = local(geometry, 5), twentieth = local(unchanged, 20);
  residues[19].ca = residues[20].ca;  // before, they were neighbours some 3.8 ångström apart
  residues[4].ca = residues[5].ca;
  EXPECT_EQ(local(geometry, 5), fifth);
  EXPECT_NE(local(geometry, 20), twentieth);
}

TEST(Geometry, ThreeAtomsOnALineMakeNoFrame) {
  std::vector<residues::Residue> residues = chain(3);
  residues[1].n = {0, 0, 0}, residues[1].ca = {1, 0, 0}, residues[1].c = {2, 0, 0};
  const Described geometry = describe_geometry(residues, one_chain(3), {});
  EXPECT_EQ(geometry.flags[1], residues::Residue::kHasCa);
}

}  // namespace
}  // namespace pipeline::protein::testing
