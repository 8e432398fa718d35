#include "doctor/expression.h"

#include <gtest/gtest.h>

#include "doctor/facts.h"
#include "doctor/ingest.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {
namespace {

// Two hosts: `sender` lost packets, `receiver` has no counters of pause.
class ExpressionTest : public testing::Test {
 protected:
  ExpressionTest() {
    Context sender(evidence_, builtin_rulebook());
    sender.host = "sender";
    sender.role = Role::kSender;
    sender.device = "mlx5_0";
    for (const auto& [phase, value] : {std::pair{Phase::kStart, 100u}, std::pair{Phase::kEnd, 350u}}) {
      sender.phase = phase;
      ingest_text("link mlx5_0/1 packet_seq_err " + std::to_string(value) + " rp_cnp_handled 7\n", sender);
    }
    Context receiver(evidence_, builtin_rulebook());
    receiver.host = "receiver";
    receiver.role = Role::kReceiver;
    ingest_text("link mlx5_1/1 state ACTIVE physical_state LINK_UP netdev eth1\n", receiver);
    evidence_.seconds = 10;
    assemble(evidence_, builtin_rulebook());
    world_.emplace(evidence_, builtin_rulebook());
  }

  Value value_of(std::string_view text) {
    const auto parsed = Expression::parse(text);
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error());
    last_ = evaluate(*parsed, *world_, world_->run());
    return last_.value;
  }
  std::optional<bool> holds(std::string_view text) { return truth(value_of(text)); }

  Evidence evidence_;
  std::optional<World> world_;
  Evaluation last_;
};

TEST_F(ExpressionTest, arithmetic_binds_as_in_school) {
  EXPECT_EQ(value_of("1 + 2 * 3 - 8 / 4"), Value(5.0));
  EXPECT_EQ(value_of("(1 + 2) * 3"), Value(9.0));
  EXPECT_EQ(value_of("min(2, 1e3)"), Value(2.0));
}

TEST_F(ExpressionTest, a_division_by_zero_is_unknown) {
  EXPECT_EQ(value_of("1 / (hosts - 2)"), Value());
}

TEST_F(ExpressionTest, unknown_is_neither_true_nor_false) {
  EXPECT_EQ(holds("d(rx_pause_us) > 0"), std::nullopt);
  EXPECT_EQ(holds("not (d(rx_pause_us) > 0)"), std::nullopt);
  EXPECT_EQ(holds("d(rx_pause_us) > 0 and hosts == 2"), std::nullopt);
  EXPECT_EQ(holds("d(rx_pause_us) > 0 and hosts == 3"), false);
  EXPECT_EQ(holds("d(rx_pause_us) > 0 or hosts == 2"), true);
  EXPECT_EQ(holds("likely(d(rx_pause_us) > 0)"), false);
  EXPECT_EQ(holds("has(rx_pause_frac)"), false);
  EXPECT_EQ(holds("unless(rx_pause_frac > 0, hosts == 2)"), true);
}

TEST_F(ExpressionTest, a_counter_that_a_port_lacks_is_unknown_there) {
  EXPECT_EQ(holds("any(sender_port, d(nak_seq) > 10)"), true);
  EXPECT_EQ(holds("any(receiver_port, d(nak_seq) > 10)"), std::nullopt);
  EXPECT_EQ(holds("all(port, d(nak_seq) > 10)"), std::nullopt);
  EXPECT_EQ(value_of("sum(port, d(nak_seq))"), Value(250.0));
  EXPECT_EQ(value_of("count(port, d(nak_seq) > 10)"), Value(1.0));
}

TEST_F(ExpressionTest, nobody_is_unknown_and_not_innocent) {
  EXPECT_EQ(holds("any(event, kind == 'wc-error')"), std::nullopt);
  EXPECT_EQ(holds("none(event, kind == 'wc-error')"), std::nullopt);
}

TEST_F(ExpressionTest, what_made_it_true_is_noted_with_place_and_threshold) {
  ASSERT_EQ(holds("any(sender_port, rate(nak_seq) > limit.timeout_rate)"), true);
  ASSERT_EQ(last_.notes.size(), 1u);
  EXPECT_EQ(last_.notes[0].name, "packet_seq_err");
  EXPECT_EQ(last_.notes[0].value, Value(250.0));
  EXPECT_EQ(last_.notes[0].threshold, 1.0);
  EXPECT_EQ(last_.notes[0].where.line, 1u);
  ASSERT_EQ(last_.witnesses.size(), 1u);
}

TEST_F(ExpressionTest, what_was_false_leaves_no_note) {
  ASSERT_EQ(holds("any(sender_port, d(nak_seq) > 1000) or hosts == 2"), true);
  for (const Noted& note : last_.notes) EXPECT_NE(note.name, "packet_seq_err");
}

TEST_F(ExpressionTest, mistakes_are_named) {
  for (const char* text : {"", "1 +", "any(port)", "any(planet, 1 == 1)", "frob(1)", "'open", "1 2", "(1",
                           "d()", "1..2", "max(1)"})
    EXPECT_FALSE(Expression::parse(text)) << text;
  EXPECT_FALSE(Expression::parse(std::string(5000, '(')));
  std::string nots;
  for (int i = 0; i < 5000; ++i) nots += "not ";
  EXPECT_FALSE(Expression::parse(nots + "true"));
}

}  // namespace
}  // namespace mroce::doctor
