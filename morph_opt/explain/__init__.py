"""Why a job of a finished run got what it got."""
