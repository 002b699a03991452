"""Operations of the client as generators of commands, shared by the sync and async classes."""
