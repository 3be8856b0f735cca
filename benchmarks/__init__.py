"""Scripts that measure draftworth: its client, verdict, search, CDK synthesis and publisher."""
