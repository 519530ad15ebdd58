"""WhatsApp by Meta's official way, the Business Cloud API: webhooks come in, calls of the Graph API go out."""
