"""A flag of commands that write a page: absl has one set of names for all modules of a process."""

from absl import flags

CHECK = flags.DEFINE_boolean('check', False, 'Compare with the file instead of writing it.')
