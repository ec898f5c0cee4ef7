"""The built-in chat model that answers while AGENT_MODEL is unset: no key, no network.

It is made of rules. What it understands and says is data, in `phrases.yaml`. Its answers come from
the prompt and from the results of tools, and it calls the real tools. The server imports nothing of
this package: `build_model` loads it by its name where no model is set.
"""
