"""Driver side: what each batch reads is decided here, before any task runs."""
