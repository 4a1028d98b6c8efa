"""Settings of every test: four fake CPU devices, and JAX's own checks turned to errors.

They are set before any backend starts, hence at import. A test that needs other settings starts a
process of its own.
"""

import gc
import os
import pathlib

import matplotlib

matplotlib.use('Agg')

import jax

# Tests compile more than they compute: without LLVM's optimiser, and with the older emitters of jax
# 0.10 (later ones refuse the flag), that takes a fifth of the time. XLA reads this when it starts.
_FLAGS = '--xla_backend_optimization_level=0'
if jax.__version_info__ < (0, 11):
  _FLAGS += ' --xla_cpu_use_fusion_emitters=false'
os.environ.setdefault('XLA_FLAGS', _FLAGS)

jax.config.update('jax_platforms', os.environ.get('JAX_PLATFORMS', 'cpu'))
jax.config.update('jax_num_cpu_devices', 4)
# An implicit [G] against [P, G] is a bug that broadcasts silently; a reused key is one that
# correlates what should be independent; raw uint32 keys escape that second check.
jax.config.update('jax_numpy_rank_promotion', 'raise')
jax.config.update('jax_debug_key_reuse', True)
jax.config.update('jax_legacy_prng_key', 'error')

# Most of the suite's time is compiling. Programs are kept in the tree, by a hash of what they
# compute, for the other worker, for processes that tests start, and for the next call.
CACHE = pathlib.Path(__file__).resolve().parents[1] / '.cache' / 'tests'
os.environ.setdefault('GRPO_CACHE', str(CACHE))
if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
  jax.config.update('jax_compilation_cache_dir', str(CACHE / 'compiled'))
jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.3)

# Tracing makes many objects, and most of them stay. To look through all for the few that do not,
# again and again, takes a sixth of the time of a trace, and more the longer a process runs.
gc.set_threshold(100_000, 20, 100)

# The short leg (-m 'not slow and not thorough') is run on a second version of Python and JAX. These
# files and tests, which lean on JAX most, are in it: a part of a test's id each. The others train
# long, start processes, or test what no version changes.
SHORT = ('advantages_test', 'arithmetic_test', 'masked_test', '/method_test', 'sampler_test',
         'scoring_test', 'sharding_test', 'staleness_test.py::LineTest', 'transformer_test',
         'writes_test', 'LoopTest::test_resume_is_bitwise', 'LoopTest::test_stale_rollouts',
         'LoopTest::test_non_finite_keeps_the_last_good_state')


# `make test` leaves these out and `make test-all` has them: the same claims as other tests make,
# for more methods, longer runs and more devices. A part of a test's id each.
THOROUGH = ('learning_test.py::OthersTest', 'toys_test.py::LongSnrTest',
            'text_train_test.py::ModelTest',
            'knobs_experiment_test.py::KnobsTest::test_smoke', 'branch_learn_test.py',
            'live_test.py::OwnTest', 'refill_test.py::StepTest::test_splitting',
            'refill_test.py::StepTest::test_a_step_is_compiled_once',
            'method_single_test.py::MemoryTest::test_devices',
            'learn_test.py::LoopTest::test_splitting_changes_nothing1',
            'bench_test.py::PlainTest::test_the_step_by_hand_moves',
            'information_gain_test.py::StepTest', 'combos_test.py::CombosTest::test_a_stored_state',
            'learn_test.py::LoopTest::test_resume_is_bitwise1',
            'learn_test.py::LoopTest::test_splitting_changes_nothing2',
            'checkup_test.py::CheckupTest::test_runs_side_by_side',
            'play_test.py::PlayTest::test_command',
            'refill_test.py::StepTest::test_all_rollouts_are_counted',
            'method_single_test.py::StepTest::test_optimal_value_from_the_reference',
            'compiling_test.py::OptionsTest::test_a_brief_run_trains',
            'method_single_test.py::MemoryTest::test_resume_is_exact',
            'method_single_test.py::StepTest::test_corrections_see_staleness',
            'bench_test.py::CommandTest::test_a_line_has_the_keys',
            'llm_test.py::LlmTest::test_trains_is_saved_and_exported0',
            'llm_test.py::LlmTest::test_trains_is_saved_and_exported2',
            'compaction_test.py::SampledTest::test_memory',
            'compaction_test.py::SampledTest::test_seeds',
            'schedules_test.py::CosineTest::test_it_is_logged',
            'live_test.py::LiveTest::test_a_lost_file_is_missed',
            'refill_test.py::StepTest::test_the_chosen_wait_in_the_delay_line',
            'method_single_test.py::StepTest::test_greedy_baseline',
            'scenes_rules_test.py::LineTest::test_a_longer_shift',
            'learn_test.py::LoopTest::test_a_folder_that_lost_a_file',
            'corrections_test.py::MemoryTest::test_tracker',
            'text_train_test.py::TrainTest::test_answers_of_all_devices',
            'live_test.py::LiveTest::test_a_resumed_run_has_every_audit_once',
            'bench_test.py::PlainTest::test_a_step_by_hand_gives_the_same_parameters',
            'scenes_test.py::ScenesTest::test_the_expert_can_be_cloned',
            'dead_fields_test.py::DeadFieldsTest::test_fields_that_need_another_setting',
            'distributed_test.py::DistributedTest::test_a_run_of_two_processes',
            'learning_test.py::LearningTest::test_answers_depend_on_the_prompt1',
            'learning_test.py::LearningTest::test_information_gain_learns_to_ask',
            'notebooks_test.py::NotebooksTest::test_tasks',
            'configs_test.py::ConfigsTest::test_scenes_train_two_steps',
            'learn_test.py::LoopTest::test_reference_is_reset_on_time',
            'admission_test.py::TrainingTest::test_a_run_learns_to_be_short',
            'compaction_config_test.py::ConfigTest::test_every_task_of_several_turns',
            'interventions_test.py::InterventionsTest::test_none_is_the_task_bit_for_bit_for_the',
            'branch_test.py::SharingTest::test_own_leaders_and_continuations',
            'sampler_test.py::RecordTest::test_sampled_logp_is_the_scored_one_turns_in_blocks',
            'sampler_test.py::RecordTest::test_sampled_logp_is_the_scored_one_long_action_in_b',
            'knobs_test.py::KnobsTest::test_the_expert_solves_the_easy_case',
            'scenes_test.py::ScenesTest::test_observations_suffice',
            'play_test.py::PlayTest::test_an_episode_of_a_model_is_the_one',
            'diagnose_test.py::AllConfigsTest', 'sokoban_test.py::SokobanTest::test_floors',
            'footprint_test.py::PageTest::test_the_whole_page')


def pytest_configure(config):
  config.addinivalue_line('markers', 'slow: left out of the short leg')
  config.addinivalue_line('markers', 'thorough: left out of `make test`')
  config.addinivalue_line('filterwarnings', 'error::DeprecationWarning')


def pytest_collection_modifyitems(items):
  for item in items:
    if not any(part in item.nodeid for part in SHORT):
      item.add_marker('slow')
    if any(part in item.nodeid for part in THOROUGH):
      item.add_marker('thorough')
