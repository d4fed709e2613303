"""Running a step: resources, plans, the interpreter, the executor and the policy that picks a tier."""
