#include "transformer/distillation.hpp"

#include "gradients.hpp"

namespace pipeline::transformer::testing {
namespace {

constexpr int64_t kStudentRows = 5, kStudentTokens = 11;
constexpr Divergence kKinds[] = {
    {.beta = 0, .temperature = 1}, {.beta = 1, .temperature = 2}, {.beta = 0.3, .temperature = 0.7}};

at::Tensor student() { return values({kStudentRows, kStudentTokens}, 1); }
at::Tensor teacher() { return values({kStudentRows, kStudentTokens}, 2) * 2; }

// (rows), in float64, of probabilities by their formulas.
at::Tensor kl(const at::Tensor& p, const at::Tensor& q) { return (p * (p / q).log()).sum(1); }
at::Tensor plain_divergence(const at::Tensor& s, const at::Tensor& t, double beta) {
  if (beta == 0) return kl(t, s);
  if (beta == 1) return kl(s, t);
  const at::Tensor m = beta * t + (1 - beta) * s;
  return beta * kl(t, m) + (1 - beta) * kl(s, m);
}

at::Tensor probabilities(const at::Tensor& logits, double temperature) {
  return at::softmax(logits.to(at::kDouble) / temperature, 1);
}
// The probabilities of the tokens, and that of all others.
at::Tensor with_others(const at::Tensor& p, const at::Tensor& ids) {
  const at::Tensor kept = p.gather(1, ids);
  return at::cat({kept, 1 - kept.sum(1, /*keepdim=*/true)}, 1);
}

TEST(LikeliestTokens, AreTheTeachersFirstOnesAndAllOthersTogether) {
  const LikeliestTokens kept = likeliest_tokens(teacher(), 3, 2);
  const at::Tensor p = probabilities(teacher(), 2);
  EXPECT_TRUE(kept.ids.equal(p.argsort(1, /*descending=*/true).narrow(1, 0, 3)));
  expect_close(kept.log_p.exp(), with_others(p, kept.ids), 1e-6, "probabilities");
}

TEST(LikeliestTokens, HaveADivergenceWithItsGradient) {
  for (const Divergence& kind : kKinds)
    for (const int64_t k : {1, 3, 10}) {
      const LikeliestTokens kept = likeliest_tokens(teacher(), k, kind.temperature);
      const DivergenceOfRows found = divergence(student(), kept, kind, true);
      const at::Tensor exact = student().to(at::kDouble).requires_grad_(true);
      const at::Tensor expected =
          plain_divergence(with_others(probabilities(exact, kind.temperature), kept.ids),
                           with_others(probabilities(teacher(), kind.temperature), kept.ids), kind.beta);
      expect_close(found.losses, expected, 1e-5, "losses");
      expected.sum().backward();
      expect_close(found.gradient, exact.grad(), 1e-5, "gradient");
    }
}

TEST(LikeliestTokens, HaveTheGradientThatDifferencesOfTheLossSay) {
  for (const Divergence& kind : kKinds) {
    const LikeliestTokens kept = likeliest_tokens(teacher(), 3, kind.temperature);
    const at::Tensor gradient = divergence(student(), kept, kind, true).gradient;
    const float step = 1e-2F;
    for (const int64_t token : {int64_t{0}, int64_t{4}, kept.ids[0][1].item<int64_t>()}) {
      const auto moved = [&](float by) {
        at::Tensor logits = student();
        logits[0][token] += by;
        return divergence(logits, kept, kind, false).losses[0].item<double>();
      };
      EXPECT_NEAR(gradient[0][token].item<double>(), (moved(step) - moved(-step)) / (2 * step), 1e-4);
    }
  }
}

TEST(LikeliestTokens, AreTheWholeTeacherWhereTheyAreAllTokens) {
  for (const Divergence& kind : kKinds) {
    const LikeliestTokens kept = likeliest_tokens(teacher(), kStudentTokens, kind.temperature);
    const DivergenceOfRows found = divergence(student(), kept, kind, true),
                           whole = divergence(student(), teacher(), kind, true);
    expect_close(found.losses, whole.losses, 1e-6, "losses");
    expect_close(found.gradient, whole.gradient, 1e-6, "gradient");
  }
}

TEST(LikeliestTokens, LoseNothingThatIsAlmostCertain) {
  at::Tensor certain = at::zeros({1, kStudentTokens});
  certain[0][2] = 60;
  const DivergenceOfRows found = divergence(certain, likeliest_tokens(certain, 1, 1), {}, true);
  EXPECT_EQ(found.losses.item<float>(), 0);
  EXPECT_TRUE(found.gradient.equal(at::zeros({1, kStudentTokens})));
}

}  // namespace
}  // namespace pipeline::transformer::testing
