"""The answers of the routes under `/memory`, as `/openapi.json` describes them.

A route returns one of these, so it cannot send what its schema does not have. A field with
`exclude_if` is absent where it is empty. Answers with very many entries are typed dicts: `Facts`
and `Export`, of which a full memory has 100,000 lines. Building a model of each would take longer
than reading them.
"""
