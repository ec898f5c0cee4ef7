"""Long-term memory for a Deep Agent on LangGraph Platform."""
