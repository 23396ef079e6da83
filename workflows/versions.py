"""Names for `workflow.patched`: each marks what a run does since that change, and runs begun before it do not."""
