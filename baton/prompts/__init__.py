"""The prompts, as text files a person can edit."""
