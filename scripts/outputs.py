"""Flags of commands that write a page or a table: absl has one set of names for all modules."""

from absl import flags

CHECK = flags.DEFINE_boolean('check', False, 'Compare with the file instead of writing it.')
OUT = flags.DEFINE_string('out', '', 'CSV file to write; none by default.')
