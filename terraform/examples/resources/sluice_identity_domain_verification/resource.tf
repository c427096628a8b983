# The record, with the provider of your DNS:
resource "aws_route53_record" "sluice" {
  zone_id = aws_route53_zone.example.zone_id
  name    = sluice_identity_provider.staff.domain_records["example.com"].txt_name
  records = [sluice_identity_provider.staff.domain_records["example.com"].txt_value]
  type    = "TXT"
  ttl     = 60
}

resource "sluice_identity_domain_verification" "example" {
  identity_provider_id = sluice_identity_provider.staff.id
  domain               = "example.com"
  depends_on           = [aws_route53_record.sluice]
}
