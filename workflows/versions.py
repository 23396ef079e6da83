"""Names for `workflow.patched`: each marks what a run does since that change, and runs begun before it do not."""

PROGRESS = "progress"
"""The task tells its progress, merges onto the head it knows, and goes on in a new run when its history is long."""

RECOVERY = "recovery"
"""Steps that fell short may lead to a new plan for what is left."""

ROUTER = "router"
"""Before the planner, facts or a small model say how the task is to be done."""

REVIEWS = "reviews"
"""The work of a chain may be reviewed before it is merged."""

LIMITS_ASK = "limits-ask"
"""A reached limit is a question to a person, and an agent asks for more before it stops."""

REPAIR = "repair"
"""New failures become repair steps."""

BASELINE_FIRST = "baseline-first"
"""Gates on the result wait for those on the base commit, so that they know which failures are new."""

SYNTHESIS = "synthesis"
"""The summarizer writes a summary for the report."""

CONSISTENCY = "consistency"
"""What chose differently from an earlier step is done again."""

NOTIFY = "notify"
"""A person is told by `notify` that the task waits or has ended."""

MERGE_QUEUE = "merge-queue"
"""Merges go in plan order among the steps that are ready, and the cheap gates run after each."""

PAUSE_ENDS_FIRST = "pause-ends-first"
"""A pause of the provider is taken back before those who wait are told."""

AFTER_MERGES = "after-merges"
"""No cheap gates run after the last merge: all gates follow on that very commit."""

RESULT_SEEN = "result-seen"
"""A resolution that fails a gate is held against the result as it is, where merges came that the gate has not seen."""

INTEGRATOR_CONFLICT = "integrator-conflict"
"""What the integrator did and does not merge goes to a resolver, then to a person."""

LIMITS_FIRST = "limits-first"
"""A limit that allows nothing from the start holds before the router is asked, and without waiting for a clock."""

TOLD_ASIDE = "told-aside"
"""An agent goes on while its parent is told how it stands."""

LEFT_BEHIND = "left-behind"
"""What an earlier start of a task left and does not merge is settled when its step's turn comes."""

SAVED_TOGETHER = "saved-together"
"""What waits to be written is written with the next save, all of it."""

SAVED_ASIDE = "saved-aside"
"""A step's result and the turn of a phase are told to the host while the task goes on."""

QUICK_TURNS = "quick-turns"
"""An activity takes several turns while they are short; an older worker would not take them from its result."""

MERGED_TOGETHER = "merged-together"
"""Steps that wait to be merged are merged by one activity, where no gates would run between them."""

PUT_AWAY_BESIDE = "put-away-beside"
"""The workspaces are put away while the result is published and the report is made."""
