#!/usr/bin/env python3
"""spec_rules.py finds what it is there to find: one planted mistake for each of its checks."""

import unittest

import spec_rules


def read(text):
    return spec_rules.Reader("x.md", "## 5.3 Receiving\n\n" + text).read()


def numbered(*numbers):
    return [spec_rules.Rule(f"§5.3-{n}", "5.3", "", "MUST", "", "x.md", n) for n in numbers]


class Sentences(unittest.TestCase):
    def only_rule(self, text):
        reader = read(text)
        self.assertEqual(reader.findings, [])
        self.assertEqual(len(reader.rules), 1)
        return reader.rules[0]

    def test_a_rule_is_the_sentence_before_its_number(self):
        rule = self.only_rule("Nothing here. It MUST NOT\nbe placed [§5.3-1]. Nor there.")
        self.assertEqual((rule.id, rule.level, rule.sentence), ("§5.3-1", "MUST NOT", "It MUST NOT be placed."))
        self.assertEqual(rule.line, 3)

    def test_an_item_is_read_with_the_introduction_that_has_the_key_word(self):
        reader = read("A receiver MUST drop it if\n\n* it is short [§5.3-1];\n* it is long [§5.3-2].\n")
        self.assertEqual(reader.findings, [])
        self.assertEqual([rule.sentence for rule in reader.rules],
                         ["A receiver MUST drop it if it is short.", "A receiver MUST drop it if it is long."])

    def test_a_cell_is_read_with_the_cells_before_it(self):
        rule = self.only_rule("| If | Then |\n|---|---|\n| it is short | it MUST be dropped [§5.3-1] |\n")
        self.assertEqual(rule.sentence, "If: it is short; Then: it MUST be dropped.")

    def test_what_explains_needs_no_number(self):
        rule = self.only_rule("It MUST go (why: it MUST (really) go) [§5.3-1].\n\n*Why.* Since it MUST.")
        self.assertEqual(rule.sentence, "It MUST go.")

    def test_code_is_not_read(self):
        self.assertEqual(read("```\nMUST\n```").findings, [])

    def test_a_key_word_without_number_is_found(self):
        self.assertIn("1 key words and 0 numbers", read("It MUST go.").findings[0])

    def test_an_introduction_without_a_list_is_found(self):
        self.assertEqual(len(read("A receiver MUST drop it if\n\nnothing.").findings), 1)

    def test_an_item_without_number_below_an_introduction_with_key_word_is_found(self):
        reader = read("It MUST go if\n\n* it is short [§5.3-1];\n* it is long.\n")
        self.assertEqual(reader.findings, ["x.md:6: an item of a rule without a number: it is long"])

    def test_a_number_without_key_word_is_found(self):
        self.assertIn("0 key words and 1 numbers", read("It goes [§5.3-1].").findings[0])

    def test_two_key_words_in_one_sentence_are_found(self):
        self.assertIn("2 key words", read("It MUST go and SHOULD run [§5.3-1].").findings[0])

    def test_a_number_of_another_section_is_found(self):
        self.assertIn("stands in section 5.3", read("It MUST go [§5.4-1].").findings[0])

    def test_other_key_words_are_found(self):
        self.assertIn("only MUST, SHOULD and MAY", read("It SHALL go.").findings[0])


class Numbers(unittest.TestCase):
    def findings(self, rules, gone=frozenset()):
        return list(spec_rules.check_numbers(rules, gone))

    def test_numbers_count_from_one(self):
        self.assertEqual(self.findings(numbered(1, 2, 3)), [])
        self.assertEqual(len(self.findings(numbered(2))), 1)

    def test_a_number_that_is_used_twice_or_out_of_order_is_found(self):
        self.assertTrue(self.findings(numbered(1, 1)))
        self.assertTrue(self.findings(numbered(1, 3, 2)))

    def test_a_gap_is_right_only_where_a_number_was_withdrawn(self):
        self.assertEqual(len(self.findings(numbered(1, 3))), 1)
        self.assertEqual(self.findings(numbered(1, 3), {"§5.3-2"}), [])

    def test_a_withdrawn_number_is_not_used_again(self):
        self.assertTrue(self.findings(numbered(1, 2), {"§5.3-2"}))

    def test_a_reference_to_a_rule_that_is_not_there_is_found_with_its_place(self):
        files = [("a.cc", "// one\n// as §5.3-1 and §5.3-9 say"), ("b.md", "RFC 1 §5.3-9")]
        self.assertEqual(list(spec_rules.check_references(numbered(1), files, set())),
                         ["a.cc:2: there is no rule §5.3-9"])


if __name__ == "__main__":
    unittest.main()
